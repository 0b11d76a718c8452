package monitor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/experience"
	"github.com/trinity-go/trinity/internal/wire/protobuf"
)

func init() {
	Monitors.Register("wandb", "Sends a run to W&B, if WANDB_API_KEY is set and WANDB_MODE is not offline. It always writes an offline run "+
		"to wandb in the run's monitor directory, which wandb sync uploads.",
		func() trinity.Monitor {
			return &wandb{Follower: newFollower(), Tables: true, BaseURL: cmp.Or(os.Getenv("WANDB_BASE_URL"), "https://api.wandb.ai")}
		})
}

// wandb writes the file of an offline run, and sends the same rows to the server. A row there has a
// step of its own, which counts rows, because explorer and trainer are at different steps. The run's
// step is the metric step, over which W&B draws all others. A row that comes twice replaces the
// first one, in the file and at the server.
type wandb struct {
	Follower `yaml:",inline"`
	BaseURL  string `yaml:"base_url" doc:"address of the server; WANDB_BASE_URL if that is set"`
	APIKey   string `yaml:"api_key" secret:"true" doc:"better in WANDB_API_KEY, which reaches no file"`
	Entity   string `yaml:"entity" doc:"user or team that gets the run; WANDB_ENTITY, else your own"`
	Tables   bool   `yaml:"tables" doc:"send the rollouts that the trace keeps of a train step, as a table"`

	run     Run
	dir     string // of the offline run
	file    *recordFile
	summary map[string]string // newest values, as JSON
	axisAt  map[string]int64  // the row in the file with the axis of a metric
	metrics []string          // with an axis
	told    int               // the number of them whose axis the server knows
	server  bool              // gets the rows
	barred  error             // why it cannot get them
	stream  string            // address of the run's rows; "" until the server has the run
	project [2]string         // entity and name there
}

// Writes returns the directory below the monitor directory and its contents, for trinity check.
func (*wandb) Writes() (path, what string) { return "wandb", "an offline run for wandb sync" }

const wandbHeader = ":W&B\xe1\xbe\x00" // magic number 0xBEE1 and version 0

// Field numbers of wandb_internal.Record and its parts.
const (
	wandbNum     protowire.Number = 1
	wandbHistory protowire.Number = 2
	wandbSummary protowire.Number = 3
	wandbFiles   protowire.Number = 6
	wandbMetric  protowire.Number = 12
	wandbRun     protowire.Number = 17
	wandbExit    protowire.Number = 18
)

// wandbStep is the metric with the run's step.
const wandbStep = "step"

// Begin implements [Sink]. Send creates the run at the server, after it has written the first rows.
func (w *wandb) Begin(_ context.Context, run Run) error {
	run.Project = cmp.Or(run.Project, "trinity")
	w.run, w.axisAt, w.metrics, w.told = run, map[string]int64{}, nil, 0
	w.server, w.barred, w.stream = false, nil, ""
	w.dir = filepath.Join(run.Dir, "wandb", fmt.Sprintf("offline-run-%s-%s", run.Began.UTC().Format("20060102_150405"), run.ID))
	if err := durable.MkdirAll(w.dir+"/files", 0o755); err != nil { // wandb sync writes its summary there
		return err
	}
	described, err := w.described()
	if err != nil {
		return err
	}
	path := filepath.Join(w.dir, "run-"+run.ID+".wandb")
	if w.file, err = openRecordFile(path, wandbHeader, 0, message(nil, wandbRun, described)); err != nil {
		return err
	}
	if err := w.readSummary(); err != nil {
		return err
	}
	if w.isOffline() {
		return nil
	}
	w.server = true
	w.barred, err = w.file.offlineReason(w.dir, "wandb sync")
	return err
}

// described returns a RunRecord.
func (w *wandb) described() ([]byte, error) {
	var config []byte
	for _, key := range slices.Sorted(maps.Keys(w.run.Settings)) {
		text, err := json.Marshal(w.run.Settings[key])
		if err != nil {
			return nil, err
		}
		config = message(config, 1, item(key, string(text)))
	}
	b := message(nil, 1, []byte(w.run.ID))
	b = message(b, 2, []byte(w.entity()))
	b = message(b, 3, []byte(w.run.Project))
	b = message(b, 4, config)
	b = message(b, 6, []byte(w.run.Group))
	b = message(b, 8, []byte(w.run.Name))
	return message(b, 17, stamp(w.run.Began)), nil
}

// Takes implements [Sink].
func (w *wandb) Takes() Parts { return Parts{Tables: w.Tables, Beat: wandbBeat} }

// Send implements [Sink]. If the server does not take the records, they and all that follow are in
// the file.
func (w *wandb) Send(ctx context.Context, b Batch) error {
	switch {
	case len(b.Tables) > 0:
		return w.sendTables(ctx, b.Tables)
	case len(b.Records) == 0 && w.stream == "":
		return nil // the server does not know the run
	case len(b.Records) == 0:
		return w.post(ctx, w.stream, struct{}{}, nil)
	}
	lines, err := w.write(b.First, b.Records)
	if err != nil || !w.server {
		return err
	}
	if err := w.sendRows(ctx, b.First+w.tail.at.TableCount, lines, nil); err != nil {
		return cmp.Or(w.writeRest(), err)
	}
	return nil
}

// writeRest writes to the file the records that the server has not got.
func (w *wandb) writeRest() error {
	return w.rest(func(first int64, records []trinity.Record) error {
		_, err := w.write(first, records)
		return err
	})
}

// write writes records to the file, and returns their rows as JSON. A table that the sink has is a row
// of its own before them.
func (w *wandb) write(first int64, records []trinity.Record) (lines []string, err error) {
	var messages [][]byte
	first += w.tail.at.TableCount
	newest := map[string]string{}
	for i, r := range records {
		row := wandbRow{number: first + int64(i)}
		w.begin(&row, r.Time, r.Step)
		for _, name := range slices.Sorted(maps.Keys(r.Metrics)) {
			row.add(name, pythonNumber(r.Metrics[name]))
			at, ok := w.axisAt[name]
			if !ok {
				w.metrics = append(w.metrics, name)
			}
			if !ok || at >= row.number { // the write replaces the row with the axis
				w.axisAt[name] = row.number
				axis := message(message(nil, 1, []byte(name)), 4, []byte(wandbStep))
				messages = append(messages, row.message(wandbMetric, axis))
			}
		}
		messages = append(messages, row.history())
		lines = append(lines, row.json())
		maps.Copy(newest, row.values)
		if i == len(records)-1 {
			messages = append(messages, w.summarize(&row, newest))
		}
	}
	return lines, w.file.write(first, messages)
}

// wandbRow is a row of the run's history.
type wandbRow struct {
	number int64
	names  []string          // in their order
	values map[string]string // as JSON
}

func (r *wandbRow) add(name, text string) {
	if r.values == nil {
		r.values = map[string]string{}
	}
	r.names, r.values[name] = append(r.names, name), text
}

// begin adds the values that each row has.
func (w *wandb) begin(r *wandbRow, at time.Time, step int64) {
	r.add("_step", strconv.FormatInt(r.number, 10))
	r.add("_timestamp", strconv.FormatFloat(float64(at.UnixMilli())/1000, 'f', 3, 64))
	r.add("_runtime", strconv.FormatFloat(max(0, at.Sub(w.run.Began).Seconds()), 'f', 3, 64))
	r.add(wandbStep, strconv.FormatInt(step, 10))
}

// message returns a record of the file that belongs to the row.
func (r *wandbRow) message(field protowire.Number, content []byte) []byte {
	return message(varint(nil, wandbNum, r.number+1), field, content)
}

func (r *wandbRow) history() []byte {
	var items []byte
	for _, name := range r.names {
		items = message(items, 1, item(name, r.values[name]))
	}
	return r.message(wandbHistory, message(items, 2, varint(nil, 1, r.number)))
}

func (r *wandbRow) json() string {
	var line []string
	for _, name := range r.names {
		line = append(line, jsonText(name)+":"+r.values[name])
	}
	return "{" + strings.Join(line, ",") + "}"
}

// summarize makes the values the newest ones of the run, and returns a record with them.
func (w *wandb) summarize(r *wandbRow, newest map[string]string) []byte {
	maps.Copy(w.summary, newest)
	var updates []byte
	for _, name := range slices.Sorted(maps.Keys(newest)) {
		updates = message(updates, 1, item(name, newest[name]))
	}
	return r.message(wandbSummary, updates)
}

// readSummary reads the newest values that the file has.
func (w *wandb) readSummary() error {
	w.summary = map[string]string{}
	return w.file.each(func(record []byte) error {
		return protobuf.Each(record, func(f protobuf.Field) error {
			if f.Number != wandbSummary {
				return nil
			}
			return f.Each(func(f protobuf.Field) error {
				var name, text string
				err := f.Each(func(f protobuf.Field) error {
					b, err := f.Bytes()
					switch f.Number {
					case 1:
						name = string(b)
					case 16:
						text = string(b)
					}
					return err
				})
				w.summary[name] = text
				return err
			})
		})
	})
}

// Tell implements [Sink].
func (w *wandb) Tell(ctx context.Context, s Status) error {
	code := map[Status]int64{Failed: 1, Stopped: 130}[s]
	exit := varint(varint(nil, 1, code), 2, int64(time.Since(w.run.Began).Seconds()))
	err := w.file.write(math.MaxInt64, [][]byte{message(nil, wandbExit, exit)})
	if err != nil || !w.server {
		return err
	}
	if err := w.reach(ctx); err != nil {
		return err
	}
	return w.post(ctx, w.stream, map[string]any{"complete": true, "exitcode": code}, nil)
}

// item is a key with a value as JSON.
func item(key, text string) []byte { return message(message(nil, 1, []byte(key)), 16, []byte(text)) }

func jsonText(text string) string {
	b, _ := json.Marshal(text) // every text has a form in JSON
	return string(b)
}

// pythonNumber writes a number as Python's json does.
func pythonNumber(v float64) string {
	return cmp.Or(experience.NotFinite(v), strconv.FormatFloat(v, 'g', -1, 64))
}
