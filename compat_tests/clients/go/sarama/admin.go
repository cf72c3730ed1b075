package main

import (
	"fmt"

	"github.com/IBM/sarama"

	"kafkapy/compat/agent"
)

func answerOffsets(client sarama.Client, admin sarama.ClusterAdmin, q *agent.Question) (any, error) {
	switch q.Do {
	case "watermarks":
		return watermarks(client, q)
	case "offset_for_time":
		offset, err := client.GetOffset(q.Topic, q.Partition, q.Timestamp)
		if offset < 0 {
			return nil, err
		}
		return offset, err
	case "commit":
		return nil, commit(client, q)
	case "committed":
		answer, err := admin.ListConsumerGroupOffsets(q.Group, map[string][]int32{q.Topic: {q.Partition}})
		if err != nil {
			return nil, err
		}
		found := answer.GetBlock(q.Topic, q.Partition)
		if found == nil || found.Offset < 0 {
			return nil, nil
		}
		return found.Offset, nil
	default:
		if err := admin.DeleteRecords(q.Topic, map[int32]int64{0: q.Before}); err != nil {
			return nil, err
		}
		return client.GetOffset(q.Topic, 0, sarama.OffsetOldest)
	}
}

func watermarks(client sarama.Client, q *agent.Question) (any, error) {
	first, err := client.GetOffset(q.Topic, q.Partition, sarama.OffsetOldest)
	if err != nil {
		return nil, err
	}
	end, err := client.GetOffset(q.Topic, q.Partition, sarama.OffsetNewest)
	return [2]int64{first, end}, err
}

func commit(client sarama.Client, q *agent.Question) error {
	manager, err := sarama.NewOffsetManagerFromClient(q.Group, client)
	if err != nil {
		return err
	}
	for _, place := range q.Offsets {
		partition, err := manager.ManagePartition(q.Topic, int32(place[0]))
		if err != nil {
			return err
		}
		defer partition.Close()
		partition.MarkOffset(place[1], "")  // forwards
		partition.ResetOffset(place[1], "") // backwards
	}
	manager.Commit()
	return manager.Close()
}

func answerAdmin(admin sarama.ClusterAdmin, q *agent.Question) (any, error) {
	switch q.Do {
	case "create_topic":
		if _, there := q.Configs["message.timestamp.type"]; there {
			return nil, unsupported("Sarama does not tell a timestamp's type")
		}
		configs := map[string]*string{}
		for key, value := range q.Configs {
			configs[key] = &value
		}
		detail := sarama.TopicDetail{NumPartitions: q.Partitions, ReplicationFactor: -1, ConfigEntries: configs}
		return nil, admin.CreateTopic(q.Topic, &detail, false)
	case "delete_topic":
		return nil, admin.DeleteTopic(q.Topic)
	case "topics":
		listed, err := admin.ListTopics()
		counts := map[string]int32{}
		for name, detail := range listed {
			counts[name] = detail.NumPartitions
		}
		return counts, err
	case "add_partitions":
		return nil, admin.CreatePartitions(q.Topic, q.Total, nil, false)
	case "configs":
		described, err := admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: q.Topic})
		found := map[string]string{}
		for _, config := range described {
			found[config.Name] = config.Value
		}
		return found, err
	case "set_config":
		change := sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &q.Value}
		changes := map[string]sarama.IncrementalAlterConfigsEntry{q.Key: change}
		return nil, admin.IncrementalAlterConfig(sarama.TopicResource, q.Topic, changes, false)
	case "describe_group":
		described, err := admin.DescribeConsumerGroups([]string{q.Group})
		if err != nil {
			return nil, err
		}
		return []any{described[0].State, described[0].ProtocolType, len(described[0].Members)}, nil
	case "delete_group":
		return nil, admin.DeleteConsumerGroup(q.Group)
	case "groups":
		listed, err := admin.ListConsumerGroups()
		names := []string{}
		for name := range listed {
			names = append(names, name)
		}
		return names, err
	}
	return nil, fmt.Errorf("nobody knows how to %s", q.Do)
}
