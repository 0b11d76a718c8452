// Package fleet lets explorers in other processes reach the trainer over HTTP. The trainer keeps
// the experience buffer and the weights, and serves both; an explorer is a client. Bodies are JSON,
// except deliveries (the form of package experience) and weights (files as they are):
//
//	POST /v1/explorers/{name}                 join → number and cursor of the last delivery, lease
//	POST /v1/explorers/{name}/alive           the trainer holds it for a third of the lease
//	POST /v1/explorers/{name}/using           the version that the explorer loaded, and its digest
//	PUT  /v1/explorers/{name}/deliveries/{n}  delivery n
//	POST /v1/explorers/{name}/spans           spans for the trainer's trace
//	POST /v1/explorers/{name}/pause, …/close  as in trinity.Sink
//	GET  /v1/versions, …/{version}/{file}     the weights: see weights.Shelf
//
// Every request carries the trainer's token. Requests of an explorer also carry its session, a
// random word of the process. A name belongs to one process at a time, until the connection of that
// process ends or its lease expires. The buffer numbers the deliveries of each explorer and stores
// the number with the delivery, so both are equally durable. A client whose request does not reach
// the trainer retries until synchronizer.sync_timeout has passed.
//
// An explorer in another directory than the trainer's sends its spans, in the trainer's time. Replies
// carry the trainer's clock. Neither side needs the other to know of spans.
package fleet

import (
	"encoding/json"
	"fmt"
	"time"
)

// protocol is the version of the protocol. It rises when programs of two versions would
// misunderstand each other.
const protocol = 2

const sessionHeader = "Trinity-Session"

// joining is an explorer's request to join.
type joining struct {
	Protocol  int    `json:"protocol"`
	Style     string `json:"sync_style"`
	Algorithm string `json:"algorithm_type"`
	Host      string `json:"host"`
	PID       int    `json:"pid"`
	Session   string `json:"session"`
	Share     Share  `json:"share"`
	Rows      string `json:"rows"`   // identifies the rows that the share is of: equal for explorers with the same tasksets
	Stage     string `json:"stage"`  // of the run that the explorer explores for; "" if the run has no stages
	Paused    int64  `json:"paused"` // version that the explorer waits for
}

// joinReply is the trainer's reply.
type joinReply struct {
	Delivered int64           `json:"delivered"` // number of the explorer's last delivery, 0 for none
	Cursor    json.RawMessage `json:"cursor,omitempty"`
	Lease     time.Duration   `json:"lease"` // nanoseconds

	Spans   bool   `json:"spans"`   // the trainer keeps spans
	Trainer string `json:"trainer"` // random word of its process, which is in AddressFile too
	timing
}

type pausing struct {
	Until int64 `json:"until"`
}

// refusal is the body of a reply with an error.
type refusal struct {
	Message string `json:"error"`
}

// short returns the beginning of a digest, for people.
func short(digest string) string { return digest[:min(12, len(digest))] }

// ago returns how long ago t was, for people.
func ago(t time.Time) string { return fmt.Sprintf("%v ago", time.Since(t).Round(time.Second)) }
