package main

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafkapy/compat/agent"
)

func startLoad(q *agent.Question) (any, error) {
	client, err := newClient(
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }),
	)
	if err != nil {
		return nil, err
	}
	send := func(load *agent.Load, number int64, value []byte, partition int32) {
		record := &kgo.Record{Topic: q.Topic, Partition: partition, Value: value}
		client.Produce(context.Background(), record, func(sent *kgo.Record, err error) {
			load.Done(number, sent.Partition, sent.Offset, err)
		})
	}
	end := func() {
		defer client.Close()
		ctx, cancel := context.WithTimeout(context.Background(), agent.Timeout)
		defer cancel()
		_ = client.Flush(ctx)
	}
	loads = append(loads, agent.StartLoad(send, end))
	return len(loads) - 1, nil
}

// fence starts two producers of one transactional id and tells what the first is answered.
func fence(ctx context.Context, q *agent.Question) (any, error) {
	var clients []*kgo.Client
	for _, value := range []string{"old", "new"} {
		client, err := newClient(kgo.TransactionalID(q.TransactionalID), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		if err != nil {
			return nil, err
		}
		defer client.Close()
		clients = append(clients, client)
		if err := client.BeginTransaction(); err != nil {
			return nil, err
		}
		if err := client.ProduceSync(ctx, &kgo.Record{Topic: q.Topic, Value: []byte(value)}).FirstErr(); err != nil {
			return nil, err
		}
	}
	if err := clients[1].EndTransaction(ctx, kgo.TryCommit); err != nil {
		return nil, err
	}
	err := clients[0].EndTransaction(ctx, kgo.TryCommit)
	var refusal *kerr.Error
	if errors.As(err, &refusal) {
		return refusal.Code, nil
	}
	return nil, errors.New("the first producer was not fenced")
}
