// franz-go, asked through the agent's questions.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafkapy/compat/agent"
)

var (
	bootstrap []string
	security  []kgo.Opt
	codecs    = map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	acks    = map[int]kgo.Acks{0: kgo.NoAck(), 1: kgo.LeaderAck(), -1: kgo.AllISRAcks()}
	members = map[int]*member{}
	loads   []*agent.Load
	resets  = map[string]kgo.Offset{
		"earliest": kgo.NewOffset().AtStart(), "latest": kgo.NewOffset().AtEnd(), "none": kgo.NewOffset().AtCommitted(),
	}
)

func newClient(options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(append([]kgo.Opt{kgo.SeedBrokers(bootstrap...)}, security...), options...)...)
}

func produce(ctx context.Context, q *agent.Question) (any, error) {
	options := []kgo.Opt{
		kgo.ProducerBatchCompression(codecs[q.Codec]),
		kgo.ProducerBatchMaxBytes(q.Limit), kgo.RequiredAcks(acks[q.Acks]), kgo.ProducerLinger(5 * time.Millisecond),
	}
	if !q.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	if q.Records[0].Partition != nil {
		options = append(options, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	client, err := newClient(options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	records := make([]*kgo.Record, len(q.Records))
	for i, sent := range q.Records {
		record := &kgo.Record{Topic: q.Topic, Key: sent.Key, Value: sent.Value}
		if sent.Partition != nil {
			record.Partition = *sent.Partition
		}
		if sent.Timestamp != nil {
			record.Timestamp = time.UnixMilli(*sent.Timestamp)
		}
		for _, header := range sent.Headers {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: header.Name, Value: header.Value})
		}
		records[i] = record
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return nil, err
	}
	places := [][2]int64{}
	for _, record := range records {
		places = append(places, [2]int64{int64(record.Partition), record.Offset})
	}
	return places, nil
}

func transact(ctx context.Context, q *agent.Question) (any, error) {
	client, err := newClient(kgo.TransactionalID(q.TransactionalID), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	for _, each := range q.Transactions {
		if err := client.BeginTransaction(); err != nil {
			return nil, err
		}
		for _, value := range each.Values {
			if err := client.ProduceSync(ctx, &kgo.Record{Topic: q.Topic, Value: value}).FirstErr(); err != nil {
				return nil, err
			}
		}
		if each.Group != nil {
			if err := commitOffset(ctx, client, q, each); err != nil {
				return nil, err
			}
		}
		if err := client.EndTransaction(ctx, kgo.TransactionEndTry(each.Commit)); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// commitOffset does by hand what the library does for its own group sessions.
func commitOffset(ctx context.Context, client *kgo.Client, q *agent.Question, wanted agent.Transaction) error {
	id, epoch, err := client.ProducerID(ctx)
	if err != nil {
		return err
	}
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = q.TransactionalID, id, epoch, *wanted.Group
	added, err := add.RequestWith(ctx, client)
	if err == nil {
		err = kerr.ErrorForCode(added.ErrorCode)
	}
	if err != nil {
		return err
	}
	described, err := kadm.NewClient(client).ListTopics(ctx, q.Topic)
	if err != nil {
		return err
	}
	partition := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	partition.Offset = wanted.Offset
	topic := kmsg.NewTxnOffsetCommitRequestTopic()
	topic.Topic, topic.Partitions = q.Topic, append(topic.Partitions, partition)
	topic.TopicID = described[q.Topic].ID // in versions from 6 on, instead of the name
	commit := kmsg.NewPtrTxnOffsetCommitRequest()
	commit.TransactionalID, commit.ProducerID, commit.ProducerEpoch, commit.Group = q.TransactionalID, id, epoch, *wanted.Group
	commit.Topics = append(commit.Topics, topic)
	committed, err := commit.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(committed.Topics[0].Partitions[0].ErrorCode)
}

func received(record *kgo.Record) agent.Record {
	timestamp := record.Timestamp.UnixMilli()
	found := agent.Record{
		Value: record.Value, Key: record.Key, Timestamp: &timestamp, Partition: &record.Partition, Offset: record.Offset,
		AppendTime: record.Attrs.TimestampType() == 1,
	}
	for _, header := range record.Headers {
		found.Headers = append(found.Headers, agent.Header{Name: header.Key, Value: header.Value})
	}
	return found
}

func consume(ctx context.Context, q *agent.Question) (any, error) {
	offset := kgo.NewOffset().At(q.Offset)
	if q.Offset == -2 {
		offset = kgo.NewOffset().AtStart()
	} else if q.Offset == -1 {
		offset = kgo.NewOffset().AtEnd()
	}
	level := kgo.ReadUncommitted()
	if q.Committed {
		level = kgo.ReadCommitted()
	}
	places := map[string]map[int32]kgo.Offset{q.Topic: {q.Partition: offset}}
	client, err := newClient(kgo.ConsumePartitions(places), kgo.FetchIsolationLevel(level))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	found := []agent.Record{}
	for len(found) < q.Count && ctx.Err() == nil {
		fetches := client.PollRecords(ctx, q.Count-len(found))
		fetches.EachRecord(func(record *kgo.Record) { found = append(found, received(record)) })
		if err := fetches.Err0(); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// member is one consumer of a group, polling in a goroutine.
type member struct {
	agent.Group
	client *kgo.Client
	ended  chan struct{}
}

func join(q *agent.Question) (any, error) {
	joined := &member{ended: make(chan struct{})}
	moved := func(held bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			joined.Assign(partitions[q.Topic], held)
		}
	}
	options := []kgo.Opt{
		kgo.ConsumerGroup(q.Group), kgo.ConsumeTopics(q.Topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(resets[q.Reset]), kgo.SessionTimeout(10 * time.Second),
		kgo.HeartbeatInterval(500 * time.Millisecond), kgo.OnPartitionsAssigned(moved(true)),
		kgo.OnPartitionsRevoked(moved(false)), kgo.OnPartitionsLost(moved(false)),
	}
	if q.Protocol == "consumer" {
		options = append(options, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	}
	client, err := newClient(options...)
	if err != nil {
		return nil, err
	}
	joined.client = client
	go func() {
		defer close(joined.ended)
		for {
			fetches := client.PollFetches(context.Background())
			if fetches.IsClientClosed() {
				return
			}
			fetches.EachRecord(func(record *kgo.Record) { joined.Receive(received(record)) })
			if err := fetches.Err(); err != nil && q.Reset == "none" {
				joined.Fail(err)
			}
		}
	}()
	number := len(members)
	members[number] = joined
	return number, nil
}

func answerMember(ctx context.Context, q *agent.Question) (any, error) {
	if q.Do == "join" {
		return join(q)
	}
	joined := members[q.Member]
	switch q.Do {
	case "poll":
		return joined.Poll()
	case "commit_member":
		return nil, joined.client.CommitUncommittedOffsets(ctx)
	default:
		joined.client.Close()
		<-joined.ended
		return nil, nil
	}
}

func answer(q *agent.Question) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), agent.Timeout)
	defer cancel()
	bootstrap = q.Addresses()
	var err error
	if security, err = secured(&q.Settings); err != nil {
		return nil, err
	}
	switch q.Do {
	case "produce":
		return produce(ctx, q)
	case "fence":
		return fence(ctx, q)
	case "start_load":
		return startLoad(q)
	case "load_state":
		return loads[q.Load].Acknowledged(), nil
	case "finish_load":
		return loads[q.Load].Finish(), nil
	case "transact":
		return transact(ctx, q)
	case "consume":
		return consume(ctx, q)
	case "join", "poll", "commit_member", "leave":
		return answerMember(ctx, q)
	}
	client, err := newClient()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	switch q.Do {
	case "watermarks", "offset_for_time", "commit", "committed", "delete_records":
		// The library leaves waiting for the very first group's coordinator to its user.
		result, err := answerOffsets(ctx, admin, q)
		for errors.Is(err, kerr.CoordinatorNotAvailable) && ctx.Err() == nil {
			time.Sleep(50 * time.Millisecond)
			result, err = answerOffsets(ctx, admin, q)
		}
		return result, err
	default:
		return answerAdmin(ctx, admin, q)
	}
}

func main() {
	agent.Serve(answer, func(err error) int {
		var refusal *kerr.Error
		if errors.As(err, &refusal) {
			return int(refusal.Code)
		}
		return -1
	})
}
