// Package fleet lets explorers reach the trainer from other processes, over HTTP. The trainer keeps the experience buffer and the weights, and serves
// both; an explorer is a client. What is said is JSON, but for deliveries (the form of package experience) and weights (files as they are):
//
//	POST /v1/explorers/{name}                    join: host, pid, session, share → the number and cursor of its last delivery, and its lease
//	POST /v1/explorers/{name}/alive              held for a third of the lease
//	POST /v1/explorers/{name}/using              which version it samples with, and the sha256 of what has arrived
//	PUT  /v1/explorers/{name}/deliveries/{n}     delivery n; one that is there already is acknowledged and not added again
//	POST /v1/explorers/{name}/pause, …/close     what trinity.Sink says
//	GET  /v1/versions?min=…&unlike=…&newest=…             the version to sample with: its digest and files; held until there is one
//	GET  /v1/versions/{version}/{file}           a file of its weights
//
// Every request bears the trainer's token. Those of an explorer bear its session, a number that a process draws for itself: a name belongs to one process at
// a time, until its connection ends or its lease runs out. The buffer numbers the deliveries of each explorer and keeps the numbers with them, so
// a number is as durable as its delivery. A request that finds no trainer is made again until synchronizer.sync_timeout has passed.
package fleet

import (
	"encoding/json"
	"fmt"
	"time"
)

// protocol is raised when the two sides of different programs would misunderstand each other.
const protocol = 2

const (
	sessionHeader = "Trinity-Session"
	// pollWindow is how long a request is held that waits for something to happen; then it is made again.
	pollWindow = 20 * time.Second
)

// joining is what an explorer says of itself.
type joining struct {
	Protocol  int    `json:"protocol"`
	Style     string `json:"sync_style"`
	Algorithm string `json:"algorithm_type"`
	Host      string `json:"host"`
	PID       int    `json:"pid"`
	Session   string `json:"session"`
	Share     Share  `json:"share"`
	Rows      string `json:"rows"`   // of which that is the share: equal of explorers with the same tasksets
	Stage     string `json:"stage"`  // of the run, which it explores for; "" of one without
	Paused    int64  `json:"paused"` // version that it waits for
	using
}

// joined is what it is told.
type joined struct {
	Delivered int64           `json:"delivered"` // number of its last delivery, 0 for none
	Cursor    json.RawMessage `json:"cursor,omitempty"`
	Lease     time.Duration   `json:"lease"` // nanoseconds
}

type pausing struct {
	Until int64 `json:"until"`
}

// using says which weights an explorer samples with.
type using struct {
	Version int64  `json:"version"`
	Digest  string `json:"digest"`
}

// weights are those of a version. The digest is the sha256 of the files' lines "<sha256>  <name>\n", as sha256sum prints them, sorted by name.
type weights struct {
	using
	Files []weightsFile `json:"files"`
	Ended bool          `json:"ended,omitempty"` // nothing that was asked for ever comes
}

type weightsFile struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// refusal is the body of a reply that is no success.
type refusal struct {
	Message string `json:"error"`
}

// short is the beginning of a digest, for people.
func short(digest string) string { return digest[:min(12, len(digest))] }

// ago is how long before now a time was, for people.
func ago(t time.Time) string { return fmt.Sprintf("%v ago", time.Since(t).Round(time.Second)) }
