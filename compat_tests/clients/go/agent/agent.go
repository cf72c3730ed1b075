// Package agent answers questions in JSON lines; a client library supplies the answers.
package agent

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// Unsupported is the code of what a library can not do.
const Unsupported = -100

// Timeout bounds what waits for the broker.
const Timeout = 40 * time.Second

// Header is a name and its value; a nil value is a null one.
type Header struct {
	Name  string
	Value []byte
}

// MarshalJSON writes the pair as an array of two.
func (h Header) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{h.Name, h.Value})
}

// UnmarshalJSON reads the array of two.
func (h *Header) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&h.Name, &h.Value})
}

// Record is one record, sent or received.
type Record struct {
	Value      []byte   `json:"value"`
	Key        []byte   `json:"key"`
	Headers    []Header `json:"headers"`
	Timestamp  *int64   `json:"timestamp"`
	Partition  *int32   `json:"partition"`
	Offset     int64    `json:"offset"`
	AppendTime bool     `json:"append_time"`
}

// Transaction is what a producer writes, the offset that it commits for a group, and how it ends.
type Transaction struct {
	Values [][]byte `json:"values"`
	Commit bool     `json:"commit"`
	Group  *string  `json:"group"`
	Offset int64    `json:"offset"`
}

// Question is everything that can be asked, each with the fields that it needs.
type Question struct {
	Do         string            `json:"do"`
	Bootstrap  string            `json:"bootstrap"`
	Settings   Settings          `json:"settings"`
	Protocol   string            `json:"group_protocol"`
	Reset      string            `json:"reset"`
	Load       int               `json:"load"`
	Topic      string            `json:"topic"`
	Group      string            `json:"group"`
	Records    []Record          `json:"records"`
	Codec      string            `json:"codec"`
	Idempotent bool              `json:"idempotent"`
	Acks       int               `json:"acks"`
	Limit      int32             `json:"limit"`
	Count      int               `json:"count"`
	Partition  int32             `json:"partition"`
	Offset     int64             `json:"offset"`
	Offsets    [][2]int64        `json:"offsets"`
	Committed  bool              `json:"committed"`
	Timestamp  int64             `json:"timestamp"`
	Partitions int32             `json:"partitions"`
	Total      int32             `json:"total"`
	Before     int64             `json:"before"`
	Key        string            `json:"key"`
	Value      string            `json:"value"`
	Configs    map[string]string `json:"configs"`
	Member     int               `json:"member"`

	TransactionalID string        `json:"transactional_id"`
	Transactions    []Transaction `json:"transactions"`
}

// Addresses are the brokers to begin with.
func (q *Question) Addresses() []string {
	return strings.Split(q.Bootstrap, ",")
}

// Group is what a member holds and has read; its methods may be called from several goroutines.
type Group struct {
	lock     sync.Mutex
	assigned map[int32]bool
	received []Record
	failure  error
}

// Assign adds or takes away partitions.
func (g *Group) Assign(partitions []int32, held bool) {
	g.lock.Lock()
	defer g.lock.Unlock()
	if g.assigned == nil {
		g.assigned = map[int32]bool{}
	}
	for _, partition := range partitions {
		if held {
			g.assigned[partition] = true
		} else {
			delete(g.assigned, partition)
		}
	}
}

// Receive adds a record.
func (g *Group) Receive(record Record) {
	g.lock.Lock()
	defer g.lock.Unlock()
	g.received = append(g.received, record)
}

// Fail keeps what ended the member.
func (g *Group) Fail(err error) {
	g.lock.Lock()
	defer g.lock.Unlock()
	g.failure = err
}

// Poll tells the partitions held, and the records received since it was last called, or what ended the member.
func (g *Group) Poll() (any, error) {
	g.lock.Lock()
	defer g.lock.Unlock()
	if g.failure != nil {
		return nil, g.failure
	}
	partitions := []int32{}
	for partition := range g.assigned {
		partitions = append(partitions, partition)
	}
	received := g.received
	g.received = nil
	return map[string]any{"assignment": partitions, "received": received}, nil
}

// Serve answers questions from standard input until it ends; code tells the number of a broker's error.
func Serve(answer func(*Question) (any, error), code func(error) int) {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var question Question
		if err = json.Unmarshal(line, &question); err != nil {
			panic(err)
		}
		reply := map[string]any{}
		result, err := answer(&question)
		if err != nil {
			reply["error"] = map[string]any{"code": code(err), "message": err.Error()}
		} else {
			reply["result"] = result
		}
		text, err := json.Marshal(reply)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(text))
	}
}
