package monitor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
)

func init() {
	Monitors.Register("wandb", "Writes an offline run of W&B to wandb in the run's monitor directory, which wandb sync uploads.",
		func() trinity.Monitor { return &wandb{Follower: newFollower()} })
}

// wandb writes the file of an offline run. A row there has a step of its own, which counts rows,
// because explorer and trainer are at different steps; the run's step is the metric step, and W&B
// draws all others over it.
type wandb struct {
	Follower `yaml:",inline"`

	began time.Time
	file  *recordFile
}

// Writes returns the directory below the monitor directory and its contents, for trinity check.
func (*wandb) Writes() (path, what string) { return "wandb", "an offline run for wandb sync" }

const wandbHeader = ":W&B\xe1\xbe\x00" // magic number 0xBEE1 and version 0

// Field numbers of wandb_internal.Record and its parts.
const (
	wandbNum     protowire.Number = 1
	wandbHistory protowire.Number = 2
	wandbMetric  protowire.Number = 12
	wandbRun     protowire.Number = 17
	wandbExit    protowire.Number = 18
)

// Begin implements [Sink].
func (w *wandb) Begin(_ context.Context, run Run) (err error) {
	w.began = run.Began
	var config []byte
	for _, key := range slices.Sorted(maps.Keys(run.Settings)) {
		text, err := json.Marshal(run.Settings[key])
		if err != nil {
			return err
		}
		config = message(config, 1, item(key, string(text)))
	}
	described := message(nil, 1, []byte(run.ID))
	described = message(described, 3, []byte(cmp.Or(run.Project, "trinity")))
	described = message(described, 4, config)
	described = message(described, 6, []byte(run.Group))
	described = message(described, 8, []byte(run.Name))
	described = message(described, 17, stamp(run.Began))
	everyMetric := message(message(nil, 2, []byte("*")), 4, []byte("step"))
	dir := filepath.Join(run.Dir, "wandb", fmt.Sprintf("offline-run-%s-%s", run.Began.UTC().Format("20060102_150405"), run.ID))
	if err := durable.MkdirAll(dir+"/files", 0o755); err != nil { // wandb sync writes its summary there
		return err
	}
	w.file, err = openRecordFile(filepath.Join(dir, "run-"+run.ID+".wandb"), wandbHeader,
		message(nil, wandbRun, described), message(nil, wandbMetric, everyMetric))
	return err
}

// Send implements [Sink].
func (w *wandb) Send(_ context.Context, first int64, records []trinity.Record) error {
	var rows [][]byte
	for i, r := range records {
		row := first + int64(i)
		var items []byte
		add := func(key, value string) { items = message(items, 1, item(key, value)) }
		add("_step", strconv.FormatInt(row, 10))
		add("_timestamp", strconv.FormatFloat(float64(r.Time.UnixMilli())/1000, 'f', 3, 64))
		add("_runtime", strconv.FormatFloat(max(0, r.Time.Sub(w.began).Seconds()), 'f', 3, 64))
		add("step", strconv.FormatInt(r.Step, 10))
		for _, name := range slices.Sorted(maps.Keys(r.Metrics)) {
			add(name, pythonNumber(r.Metrics[name]))
		}
		items = message(items, 2, varint(nil, 1, row))
		rows = append(rows, message(varint(nil, wandbNum, row+1), wandbHistory, items))
	}
	return w.file.write(first, rows)
}

// Tell implements [Sink].
func (w *wandb) Tell(_ context.Context, s Status) error {
	exit := varint(nil, 1, map[Status]int64{Failed: 1, Stopped: 130}[s])
	exit = varint(exit, 2, int64(time.Since(w.began).Seconds()))
	return w.file.write(math.MaxInt64, [][]byte{message(nil, wandbExit, exit)})
}

// item is a key with a value as JSON.
func item(key, value string) []byte { return message(message(nil, 1, []byte(key)), 16, []byte(value)) }

func varint(b []byte, field protowire.Number, v int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(v))
}

// stamp is a google.protobuf.Timestamp.
func stamp(t time.Time) []byte { return varint(varint(nil, 1, t.Unix()), 2, int64(t.Nanosecond())) }

// pythonNumber writes a number as Python's json does.
func pythonNumber(v float64) string {
	switch {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 0):
		return map[bool]string{true: "Infinity", false: "-Infinity"}[v > 0]
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
