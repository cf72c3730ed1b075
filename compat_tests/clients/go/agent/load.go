package agent

import (
	"strconv"
	"sync"
	"time"
)

const (
	loadPartitions = 2
	loadPause      = 8 * time.Millisecond
)

// Load sends numbered records from a goroutine until it is finished.
type Load struct {
	lock     sync.Mutex
	places   [][3]int64
	failures []string
	stop     chan struct{}
	ended    chan struct{}
}

// StartLoad hands records to send, and calls end when no more come; end waits for what is under way.
func StartLoad(send func(load *Load, number int64, value []byte, partition int32), end func()) *Load {
	load := &Load{stop: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(load.ended)
		for number := int64(0); ; number++ {
			select {
			case <-load.stop:
				end()
				return
			case <-time.After(loadPause):
				send(load, number, []byte(strconv.FormatInt(number, 10)), int32(number%loadPartitions))
			}
		}
	}()
	return load
}

// Done keeps where a record went, or why it was lost.
func (l *Load) Done(number int64, partition int32, offset int64, err error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if err != nil {
		l.failures = append(l.failures, err.Error())
		return
	}
	l.places = append(l.places, [3]int64{number, int64(partition), offset})
}

// Acknowledged is the number of records that the broker has taken.
func (l *Load) Acknowledged() int {
	l.lock.Lock()
	defer l.lock.Unlock()
	return len(l.places)
}

// Finish sends no more, waits, and tells everything.
func (l *Load) Finish() any {
	close(l.stop)
	<-l.ended
	return map[string]any{"places": l.places, "failures": l.failures}
}
