package main

import (
	"errors"
	"time"

	"github.com/IBM/sarama"

	"kafkapy/compat/agent"
)

func startLoad(q *agent.Question) (any, error) {
	config := newConfig()
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Retry.Max = 600 // as long as the broker may take to come back
	config.Metadata.Retry.Max = 600
	config.Net.MaxOpenRequests = 1
	config.Net.ReadTimeout = 5 * time.Second
	producer, err := sarama.NewAsyncProducer(address, config)
	if err != nil {
		return nil, err
	}
	var load *agent.Load
	taken, lost := make(chan struct{}), make(chan struct{})
	send := func(_ *agent.Load, number int64, value []byte, partition int32) {
		message := &sarama.ProducerMessage{Topic: q.Topic, Partition: partition, Value: sarama.ByteEncoder(value), Metadata: number}
		producer.Input() <- message
	}
	load = agent.StartLoad(send, func() {
		producer.AsyncClose()
		<-taken
		<-lost
	})
	go func() {
		defer close(taken)
		for message := range producer.Successes() {
			load.Done(message.Metadata.(int64), message.Partition, message.Offset, nil)
		}
	}()
	go func() {
		defer close(lost)
		for failed := range producer.Errors() {
			load.Done(-1, 0, -1, failed.Err)
		}
	}()
	loads = append(loads, load)
	return len(loads) - 1, nil
}

// fence starts two producers of one transactional id and tells what the first is answered.
func fence(q *agent.Question) (any, error) {
	var producers []sarama.SyncProducer
	for _, value := range []string{"old", "new"} {
		producer, err := sarama.NewSyncProducer(address, transactional(q.TransactionalID))
		if err != nil {
			return nil, err
		}
		defer producer.Close()
		producers = append(producers, producer)
		if err := producer.BeginTxn(); err != nil {
			return nil, err
		}
		message := &sarama.ProducerMessage{Topic: q.Topic, Value: sarama.StringEncoder(value)}
		if _, _, err := producer.SendMessage(message); err != nil {
			return nil, err
		}
	}
	if err := producers[1].CommitTxn(); err != nil {
		return nil, err
	}
	err := producers[0].CommitTxn()
	var refusal sarama.KError
	if errors.As(err, &refusal) {
		return int(refusal), nil
	}
	return nil, errors.Join(errors.New("the first producer was not fenced"), err)
}
