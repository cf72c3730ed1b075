// What command line tools in Go make of a broker: franz-go's guess of its release (kcl, kminion), and the answers to
// the requests of kafkactl's commands for access control lists, which are sarama's.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	bootstrap := strings.Split(os.Args[1], ",")
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...))
	check(err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	versions, err := kadm.NewClient(client).ApiVersions(ctx)
	check(err)
	for _, broker := range versions.Sorted() {
		check(broker.Err)
		fmt.Println("guess:", broker.VersionGuess())
	}

	config := sarama.NewConfig()
	config.Version = sarama.V2_7_0_0
	admin, err := sarama.NewClusterAdmin(bootstrap, config)
	check(err)
	defer admin.Close()
	resource := sarama.Resource{ResourceType: sarama.AclResourceTopic, ResourceName: "t", ResourcePatternType: sarama.AclPatternLiteral}
	entry := sarama.Acl{Principal: "User:a", Host: "*", Operation: sarama.AclOperationRead, PermissionType: sarama.AclPermissionAllow}
	filter := sarama.AclFilter{ResourceType: sarama.AclResourceAny, ResourcePatternTypeFilter: sarama.AclPatternAny, Operation: sarama.AclOperationAny, PermissionType: sarama.AclPermissionAny}
	_, err = admin.ListAcls(filter)
	fmt.Println("list:", err)
	fmt.Println("create:", admin.CreateACL(resource, entry))
	_, err = admin.DeleteACL(filter, false)
	fmt.Println("delete:", err)
}

func check(err error) {
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}
