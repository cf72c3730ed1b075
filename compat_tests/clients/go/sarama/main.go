// Sarama, asked through the agent's questions.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"time"

	"github.com/IBM/sarama"

	"kafkapy/compat/agent"
)

var (
	address []string
	tlsOf   *tls.Config
	login   *agent.SASL
	codecs  = map[string]sarama.CompressionCodec{
		"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
		"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	}
	members = map[int]*member{}
	loads   []*agent.Load
)

// unsupported is what the library can't do, or does not tell.
type unsupported string

func (u unsupported) Error() string { return string(u) }

func newConfig() *sarama.Config {
	config := sarama.NewConfig()
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.MaxWaitTime = 50 * time.Millisecond
	config.Consumer.Group.Session.Timeout = 10 * time.Second
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	secure(config, tlsOf, login)
	return config
}

func produce(q *agent.Question) (any, error) {
	config := newConfig()
	if q.Records[0].Partition == nil {
		config.Producer.Partitioner = sarama.NewHashPartitioner
	}
	config.Producer.Compression = codecs[q.Codec]
	config.Producer.RequiredAcks = sarama.RequiredAcks(q.Acks)
	config.Producer.MaxMessageBytes = int(q.Limit)
	config.Producer.Idempotent = q.Idempotent
	if q.Idempotent {
		config.Net.MaxOpenRequests = 1
	}
	producer, err := sarama.NewSyncProducer(address, config)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	messages := make([]*sarama.ProducerMessage, len(q.Records))
	for i, sent := range q.Records {
		message := &sarama.ProducerMessage{Topic: q.Topic}
		if sent.Partition != nil {
			message.Partition = *sent.Partition
		}
		if sent.Key != nil {
			message.Key = sarama.ByteEncoder(sent.Key)
		}
		if sent.Value != nil {
			message.Value = sarama.ByteEncoder(sent.Value)
		}
		if sent.Timestamp != nil {
			message.Timestamp = time.UnixMilli(*sent.Timestamp)
		}
		for _, header := range sent.Headers {
			message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(header.Name), Value: header.Value})
		}
		messages[i] = message
	}
	if err := producer.SendMessages(messages); err != nil {
		var refused sarama.ProducerErrors
		if errors.As(err, &refused) {
			err = refused[0].Err
		}
		return nil, err
	}
	places := [][2]int64{}
	for _, message := range messages {
		places = append(places, [2]int64{int64(message.Partition), message.Offset})
	}
	return places, nil
}

func transactional(id string) *sarama.Config {
	config := newConfig()
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Transaction.ID = id
	config.Net.MaxOpenRequests = 1
	return config
}

func transact(q *agent.Question) (any, error) {
	producer, err := sarama.NewSyncProducer(address, transactional(q.TransactionalID))
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	for _, each := range q.Transactions {
		if err := transactOnce(producer, q.Topic, each); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func transactOnce(producer sarama.SyncProducer, topic string, wanted agent.Transaction) error {
	if err := producer.BeginTxn(); err != nil {
		return err
	}
	for _, value := range wanted.Values {
		message := &sarama.ProducerMessage{Topic: topic, Value: sarama.ByteEncoder(value)}
		if _, _, err := producer.SendMessage(message); err != nil {
			return err
		}
	}
	if wanted.Group != nil {
		offsets := map[string][]*sarama.PartitionOffsetMetadata{topic: {{Offset: wanted.Offset}}}
		if err := producer.AddOffsetsToTxn(offsets, *wanted.Group); err != nil {
			return err
		}
	}
	if wanted.Commit {
		return producer.CommitTxn()
	}
	return producer.AbortTxn()
}

func received(message *sarama.ConsumerMessage) agent.Record {
	timestamp := message.Timestamp.UnixMilli()
	found := agent.Record{
		Value: message.Value, Key: message.Key, Timestamp: &timestamp, Partition: &message.Partition, Offset: message.Offset,
	}
	for _, header := range message.Headers {
		found.Headers = append(found.Headers, agent.Header{Name: string(header.Key), Value: header.Value})
	}
	return found
}

func consume(q *agent.Question) (any, error) {
	config := newConfig()
	if q.Committed {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	consumer, err := sarama.NewConsumer(address, config)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	place, err := consumer.ConsumePartition(q.Topic, q.Partition, q.Offset)
	if err != nil {
		return nil, err
	}
	defer place.Close()
	found := []agent.Record{}
	deadline := time.After(agent.Timeout)
	for len(found) < q.Count {
		select {
		case message := <-place.Messages():
			found = append(found, received(message))
		case <-deadline:
			return found, nil
		}
	}
	return found, nil
}

// member is one consumer of a group; the library calls it for each generation and for each partition.
type member struct {
	agent.Group
	topic   string
	group   sarama.ConsumerGroup
	session sarama.ConsumerGroupSession
	cancel  context.CancelFunc
	ended   chan struct{}
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.session = session
	m.Assign(session.Claims()[m.topic], true)
	return nil
}

func (m *member) Cleanup(session sarama.ConsumerGroupSession) error {
	m.Assign(session.Claims()[m.topic], false)
	return nil
}

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			session.MarkMessage(message, "")
			m.Receive(received(message))
		case <-session.Context().Done():
			return nil
		}
	}
}

func join(q *agent.Question) (any, error) {
	config := newConfig()
	switch q.Reset {
	case "latest":
		config.Consumer.Offsets.Initial = sarama.OffsetNewest
	case "none":
		return nil, unsupported("sarama always begins somewhere")
	}
	group, err := sarama.NewConsumerGroup(address, q.Group, config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	joined := &member{topic: q.Topic, group: group, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(joined.ended)
		for ctx.Err() == nil {
			if err := group.Consume(ctx, []string{q.Topic}, joined); err != nil && ctx.Err() == nil {
				time.Sleep(100 * time.Millisecond) // the broker may be on its way back
			}
		}
	}()
	number := len(members)
	members[number] = joined
	return number, nil
}

func leave(joined *member) error {
	joined.cancel()
	<-joined.ended
	return joined.group.Close()
}

func answer(q *agent.Question) (any, error) {
	var err error
	address, login = q.Addresses(), q.Settings.SASL
	if tlsOf, err = q.Settings.TLSConfig(); err != nil {
		return nil, err
	}
	switch q.Do {
	case "fence":
		return fence(q)
	case "start_load":
		return startLoad(q)
	case "load_state":
		return loads[q.Load].Acknowledged(), nil
	case "finish_load":
		return loads[q.Load].Finish(), nil
	case "produce":
		return produce(q)
	case "transact":
		return transact(q)
	case "consume":
		return consume(q)
	case "join":
		return join(q)
	case "poll":
		return members[q.Member].Poll()
	case "commit_member":
		members[q.Member].session.Commit()
		return nil, nil
	case "leave":
		return nil, leave(members[q.Member])
	}
	client, err := sarama.NewClient(address, newConfig())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	admin, err := sarama.NewClusterAdminFromClient(client)
	if err != nil {
		return nil, err
	}
	switch q.Do {
	case "watermarks", "offset_for_time", "commit", "committed", "delete_records":
		return answerOffsets(client, admin, q)
	default:
		return answerAdmin(admin, q)
	}
}

func main() {
	agent.Serve(answer, func(err error) int {
		var refusal sarama.KError
		var missing unsupported
		switch {
		case errors.As(err, &refusal):
			return int(refusal)
		case errors.As(err, &missing):
			return agent.Unsupported
		default:
			return -1
		}
	})
}
