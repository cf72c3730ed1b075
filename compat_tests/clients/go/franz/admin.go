package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"

	"kafkapy/compat/agent"
)

func answerOffsets(ctx context.Context, admin *kadm.Client, q *agent.Question) (any, error) {
	switch q.Do {
	case "watermarks":
		first, err := admin.ListStartOffsets(ctx, q.Topic)
		if err != nil {
			return nil, err
		}
		end, err := admin.ListEndOffsets(ctx, q.Topic)
		if err != nil {
			return nil, err
		}
		from, _ := first.Lookup(q.Topic, q.Partition)
		to, _ := end.Lookup(q.Topic, q.Partition)
		return [2]int64{from.Offset, to.Offset}, firstOf(from.Err, to.Err)
	case "offset_for_time":
		listed, err := admin.ListOffsetsAfterMilli(ctx, q.Timestamp, q.Topic)
		if err != nil {
			return nil, err
		}
		found, _ := listed.Lookup(q.Topic, q.Partition)
		if found.Timestamp == -1 {
			return nil, found.Err
		}
		return found.Offset, found.Err
	case "commit":
		offsets := kadm.Offsets{}
		for _, place := range q.Offsets {
			offsets.AddOffset(q.Topic, int32(place[0]), place[1], -1)
		}
		return nil, admin.CommitAllOffsets(ctx, q.Group, offsets)
	case "committed":
		fetched, err := admin.FetchOffsets(ctx, q.Group)
		if err != nil {
			return nil, err
		}
		found, there := fetched.Lookup(q.Topic, q.Partition)
		if !there || found.At < 0 {
			return nil, found.Err
		}
		return found.At, found.Err
	default:
		offsets := kadm.Offsets{}
		offsets.AddOffset(q.Topic, 0, q.Before, -1)
		answers, err := admin.DeleteRecords(ctx, offsets)
		if err != nil {
			return nil, err
		}
		found, _ := answers.Lookup(q.Topic, 0)
		return found.LowWatermark, found.Err
	}
}

func answerAdmin(ctx context.Context, admin *kadm.Client, q *agent.Question) (any, error) {
	switch q.Do {
	case "create_topic":
		configs := map[string]*string{}
		for key, value := range q.Configs {
			configs[key] = &value
		}
		created, err := admin.CreateTopic(ctx, q.Partitions, -1, configs, q.Topic)
		return nil, firstOf(err, created.Err)
	case "delete_topic":
		deleted, err := admin.DeleteTopic(ctx, q.Topic)
		return nil, firstOf(err, deleted.Err)
	case "topics":
		listed, err := admin.ListTopics(ctx)
		counts := map[string]int{}
		for name, topic := range listed {
			if topic.Err == nil {
				counts[name] = len(topic.Partitions)
			}
		}
		return counts, err
	case "add_partitions":
		answers, err := admin.UpdatePartitions(ctx, int(q.Total), q.Topic)
		return nil, firstOf(err, answers.Error())
	case "configs":
		return configs(ctx, admin, q.Topic)
	case "set_config":
		change := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: q.Key, Value: &q.Value}}
		answers, err := admin.AlterTopicConfigs(ctx, change, q.Topic)
		if err != nil {
			return nil, err
		}
		return nil, answers[0].Err
	case "describe_group":
		if q.Protocol == "consumer" {
			described, err := admin.DescribeConsumerGroups(ctx, q.Group)
			if err != nil {
				return nil, err
			}
			group := described[q.Group]
			return []any{group.State, q.Protocol, len(group.Members)}, group.Err
		}
		described, err := admin.DescribeGroups(ctx, q.Group)
		if err != nil {
			return nil, err
		}
		group := described[q.Group]
		return []any{group.State, group.ProtocolType, len(group.Members)}, group.Err
	case "delete_group":
		deleted, err := admin.DeleteGroup(ctx, q.Group)
		return nil, firstOf(err, deleted.Err)
	case "groups":
		listed, err := admin.ListGroups(ctx)
		return listed.Groups(), err
	}
	return nil, fmt.Errorf("nobody knows how to %s", q.Do)
}

func configs(ctx context.Context, admin *kadm.Client, topic string) (any, error) {
	described, err := admin.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, config := range described[0].Configs {
		found[config.Key] = config.MaybeValue()
	}
	return found, described[0].Err
}

func firstOf(errors ...error) error {
	for _, err := range errors {
		if err != nil {
			return err
		}
	}
	return nil
}
