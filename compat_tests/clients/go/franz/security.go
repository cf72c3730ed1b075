package main

import (
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"kafkapy/compat/agent"
)

func secured(settings *agent.Settings) ([]kgo.Opt, error) {
	options := []kgo.Opt{}
	config, err := settings.TLSConfig()
	if err != nil {
		return nil, err
	}
	if config != nil {
		options = append(options, kgo.DialTLSConfig(config))
	}
	if settings.SASL != nil {
		options = append(options, kgo.SASL(mechanism(settings.SASL)))
	}
	return options, nil
}

func mechanism(login *agent.SASL) sasl.Mechanism {
	switch login.Mechanism {
	case "PLAIN":
		return plain.Auth{User: login.Username, Pass: login.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: login.Username, Pass: login.Password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: login.Username, Pass: login.Password}.AsSha512Mechanism()
	default:
		return oauth.Auth{Token: login.Token}.AsMechanism()
	}
}
