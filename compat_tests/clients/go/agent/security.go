package agent

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
)

// Settings are what kafkapy's client_settings gives to libraries of Go; without security there are none.
type Settings struct {
	TLS *struct {
		CA          string
		Certificate string
		Key         string
	}
	SASL *SASL
}

// SASL is how a client proves who it is.
type SASL struct {
	Mechanism string
	Username  string
	Password  string
	Token     string
}

// TLSConfig is nil for a connection without TLS.
func (s *Settings) TLSConfig() (*tls.Config, error) {
	if s.TLS == nil {
		return nil, nil
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	if !config.RootCAs.AppendCertsFromPEM([]byte(s.TLS.CA)) {
		return nil, errors.New("the authority's certificate can't be read")
	}
	if s.TLS.Key != "" {
		own, err := tls.X509KeyPair([]byte(s.TLS.Certificate), []byte(s.TLS.Key))
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}
