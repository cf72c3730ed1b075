// A broker that says twice that another one leads, and then keeps records for an hour that is over at once.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

var control string

func main() {
	broker := exec.Command("kafkapy", "start", "--ephemeral", "--print-bootstrap", "--control-port", "0",
		"log.retention.ms=3600000")
	broker.Stderr = os.Stderr
	output, err := broker.StdoutPipe()
	check(err)
	check(broker.Start())
	defer broker.Wait()
	defer broker.Process.Signal(os.Interrupt)
	lines := bufio.NewScanner(output)
	lines.Scan()
	bootstrap := lines.Text()
	lines.Scan()
	control = lines.Text()

	rule := ask("POST", "/faults", `{"action": "error", "error": "NOT_LEADER_OR_FOLLOWER", "api": "Produce", "count": 2}`)
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.AllowAutoTopicCreation(),
		kgo.MetadataMinAge(100*time.Millisecond)) // it would wait seconds before it looks for the leader again
	check(err)
	defer client.Close()
	ctx := context.Background()
	check(client.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("first")}).FirstErr())
	fired := ask("GET", fmt.Sprintf("/faults/%v", rule["id"]), "")["fired"]
	expect(fired == 2.0, "the producer has tried again")

	admin := kadm.NewClient(client)
	expect(start(ctx, admin) == 0, "the record is there")
	ask("POST", "/clock/advance", `{"duration_ms": 7200000}`)
	expect(start(ctx, admin) == 1, "its hour is over")
}

func start(ctx context.Context, admin *kadm.Client) int64 {
	offsets, err := admin.ListStartOffsets(ctx, "orders")
	check(err)
	found, _ := offsets.Lookup("orders", 0)
	check(found.Err)
	return found.Offset
}

func ask(method, path, body string) map[string]any {
	request, err := http.NewRequest(method, control+path, strings.NewReader(body))
	check(err)
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	check(err)
	defer answer.Body.Close()
	told := map[string]any{}
	check(json.NewDecoder(answer.Body).Decode(&told))
	expect(answer.StatusCode < 300, fmt.Sprint(method, " ", path, " ", told["error"]))
	return told
}

func expect(holds bool, what string) {
	if !holds {
		log.Fatal(what)
	}
	fmt.Println("ok:", what)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
