package main

import (
	"crypto/tls"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"

	"kafkapy/compat/agent"
)

var hashes = map[string]scram.HashGeneratorFcn{"SCRAM-SHA-256": scram.SHA256, "SCRAM-SHA-512": scram.SHA512}

// exchange is the other library that sarama's users give it for SCRAM.
type exchange struct {
	hash scram.HashGeneratorFcn
	*scram.ClientConversation
}

func (e *exchange) Begin(user, password, authzID string) error {
	client, err := e.hash.NewClient(user, password, authzID)
	if err != nil {
		return err
	}
	e.ClientConversation = client.NewConversation()
	return nil
}

type token string

func (t token) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(t)}, nil
}

func secure(config *sarama.Config, connection *tls.Config, login *agent.SASL) {
	config.Net.TLS.Enable = connection != nil
	config.Net.TLS.Config = connection
	if login == nil {
		return
	}
	config.Net.SASL.Enable = true
	config.Net.SASL.Mechanism = sarama.SASLMechanism(login.Mechanism)
	config.Net.SASL.User = login.Username
	config.Net.SASL.Password = login.Password
	config.Net.SASL.TokenProvider = token(login.Token)
	config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient {
		return &exchange{hash: hashes[login.Mechanism]}
	}
}
