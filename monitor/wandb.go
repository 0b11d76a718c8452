package monitor

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
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
	"github.com/trinity-go/trinity/internal/retry"
)

func init() {
	Monitors.Register("wandb", "Sends a run to W&B, if WANDB_API_KEY is set and WANDB_MODE is not offline. It always writes an offline run "+
		"to wandb in the run's monitor directory, which wandb sync uploads.",
		func() trinity.Monitor {
			return &wandb{Follower: newFollower(), BaseURL: cmp.Or(os.Getenv("WANDB_BASE_URL"), "https://api.wandb.ai")}
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

	run     Run
	file    *recordFile
	axisAt  map[string]int64 // the row in the file with the axis of a metric
	metrics []string         // with an axis
	told    int              // the number of them whose axis the server knows
	server  bool             // gets the rows
	barred  error            // why it cannot get them
	stream  string           // address of the run's rows; "" until the server has the run
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

// wandbRows are rows for the server, from the row with the number Offset on.
type wandbRows struct {
	Files struct {
		History struct {
			Offset  int64    `json:"offset"`
			Content []string `json:"content"`
		} `json:"wandb-history.jsonl"`
	} `json:"files"`
}

// wandbStep is the metric with the run's step.
const wandbStep = "step"

// Begin implements [Sink]. Send creates the run at the server, after it has written the first rows.
func (w *wandb) Begin(_ context.Context, run Run) error {
	run.Project = cmp.Or(run.Project, "trinity")
	w.run, w.axisAt, w.metrics, w.told = run, map[string]int64{}, nil, 0
	w.server, w.barred, w.stream = false, nil, ""
	dir := filepath.Join(run.Dir, "wandb", fmt.Sprintf("offline-run-%s-%s", run.Began.UTC().Format("20060102_150405"), run.ID))
	if err := durable.MkdirAll(dir+"/files", 0o755); err != nil { // wandb sync writes its summary there
		return err
	}
	described, err := w.described()
	if err != nil {
		return err
	}
	if w.file, err = openRecordFile(filepath.Join(dir, "run-"+run.ID+".wandb"), wandbHeader, message(nil, wandbRun, described)); err != nil {
		return err
	}
	if w.isOffline() {
		return nil
	}
	w.server = true
	online := filepath.Join(dir, "online") // the server gets the rows from the first one on
	if _, err := os.Stat(online); err != nil && len(w.file.ends) > 1 {
		w.barred = fmt.Errorf("the run began offline: wandb sync %s uploads it", dir)
		return nil
	}
	return durable.WriteFile(online, nil)
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

// Send implements [Sink]. If the server does not take the records, they and all that follow are in
// the file.
func (w *wandb) Send(ctx context.Context, first int64, records []trinity.Record) error {
	lines, err := w.write(first, records)
	if err != nil || !w.server {
		return err
	}
	if err := w.reach(ctx); err != nil {
		return cmp.Or(w.writeRest(), err)
	}
	var in wandbRows
	in.Files.History.Offset, in.Files.History.Content = first, lines
	if err := w.post(ctx, w.stream, in, nil); err != nil {
		return cmp.Or(w.writeRest(), err)
	}
	return nil
}

// writeRest writes to the file the records that are in metrics.jsonl, from those on that the server
// has not got. The position stays, because the server gets them later.
func (w *wandb) writeRest() error {
	for rest := *w.tail; ; {
		records, then, err := rest.next()
		if err != nil || len(records) == 0 {
			return err
		}
		if _, err := w.write(rest.at.Records, records); err != nil {
			return err
		}
		rest.at = then
	}
}

// write writes rows to the file, and returns them as JSON.
func (w *wandb) write(first int64, records []trinity.Record) (lines []string, err error) {
	var messages [][]byte
	for i, r := range records {
		row := first + int64(i)
		number := varint(nil, wandbNum, row+1)
		var items []byte
		var line []string
		add := func(key, text string) {
			items = message(items, 1, item(key, text))
			line = append(line, jsonText(key)+":"+text)
		}
		add("_step", strconv.FormatInt(row, 10))
		add("_timestamp", strconv.FormatFloat(float64(r.Time.UnixMilli())/1000, 'f', 3, 64))
		add("_runtime", strconv.FormatFloat(max(0, r.Time.Sub(w.run.Began).Seconds()), 'f', 3, 64))
		add(wandbStep, strconv.FormatInt(r.Step, 10))
		for _, name := range slices.Sorted(maps.Keys(r.Metrics)) {
			add(name, pythonNumber(r.Metrics[name]))
			at, ok := w.axisAt[name]
			if !ok {
				w.metrics = append(w.metrics, name)
			}
			if !ok || at >= row { // the write replaces the row with the axis
				w.axisAt[name] = row
				axis := message(message(nil, 1, []byte(name)), 4, []byte(wandbStep))
				messages = append(messages, message(slices.Clone(number), wandbMetric, axis))
			}
		}
		items = message(items, 2, varint(nil, 1, row))
		messages = append(messages, message(number, wandbHistory, items))
		lines = append(lines, "{"+strings.Join(line, ",")+"}")
	}
	return lines, w.file.write(first, messages)
}

// reach creates the run at the server, or changes it if there are new metrics.
func (w *wandb) reach(ctx context.Context) error {
	switch {
	case w.barred != nil:
		return w.barred
	case w.stream == "" || len(w.metrics) > w.told:
		return w.upsert(ctx)
	}
	return nil
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

// wandbUpsert creates a run, or changes the one with the same name.
const wandbUpsert = `mutation UpsertBucket($name: String, $project: String, $entity: String, $groupName: String, $displayName: String,
$config: JSONString) { upsertBucket(input: {name: $name, modelName: $project, entityName: $entity, groupName: $groupName,
displayName: $displayName, config: $config}) { bucket { name project { name entity { name } } } inserted } }`

// upsert creates the run at the server, or changes its configuration.
func (w *wandb) upsert(ctx context.Context) error {
	config := map[string]any{"_wandb": map[string]any{"value": map[string]any{"m": w.axes()}}}
	for key, v := range w.run.Settings {
		config[key] = map[string]any{"value": v}
	}
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	var out struct {
		Errors []struct{ Message string }
		Data   struct {
			UpsertBucket struct {
				Bucket struct {
					Project struct {
						Name   string
						Entity struct{ Name string }
					}
				}
			}
		}
	}
	err = w.post(ctx, "/graphql", map[string]any{"operationName": "UpsertBucket", "query": wandbUpsert, "variables": map[string]any{
		"name": w.run.ID, "project": w.run.Project, "entity": orNull(w.entity()), "groupName": orNull(w.run.Group),
		"displayName": w.run.Name, "config": string(text),
	}}, &out)
	project := out.Data.UpsertBucket.Bucket.Project
	switch {
	case err != nil:
		return err
	case len(out.Errors) > 0:
		return fmt.Errorf("%s: %s", w.BaseURL, out.Errors[0].Message)
	case project.Name == "" || project.Entity.Name == "":
		return fmt.Errorf("%s: the answer names no project of the run", w.BaseURL)
	}
	w.told = len(w.metrics)
	w.stream = "/files/" + url.PathEscape(project.Entity.Name) + "/" + url.PathEscape(project.Name) + "/" + w.run.ID + "/file_stream"
	return nil
}

// axes tells W&B, by numbers in place of names, that every metric (1) is drawn over the first of the
// list (5).
func (w *wandb) axes() []map[string]any {
	axes := []map[string]any{{"1": wandbStep, "6": []int{}, "7": []int{}}}
	for _, name := range w.metrics {
		axes = append(axes, map[string]any{"1": name, "5": 1, "6": []int{}, "7": []int{}})
	}
	return axes
}

func (w *wandb) post(ctx context.Context, path string, in, out any) error {
	c := client()
	c.MayPass = func(code int) bool { return !slices.Contains([]int{400, 401, 403, 404, 409, 410}, code) }
	return c.JSON(ctx, retry.Request{
		Method: http.MethodPost, URL: strings.TrimRight(w.BaseURL, "/") + path,
		Header: http.Header{"Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte("api:"+w.key()))}},
	}, in, out)
}

func (w *wandb) key() string    { return cmp.Or(w.APIKey, os.Getenv("WANDB_API_KEY")) }
func (w *wandb) entity() string { return cmp.Or(w.Entity, os.Getenv("WANDB_ENTITY")) }

// Target implements [Sink].
func (w *wandb) Target() string {
	if w.isOffline() {
		return ""
	}
	return withoutSecrets(w.BaseURL)
}

// isOffline reports whether a server gets nothing.
func (w *wandb) isOffline() bool {
	return w.key() == "" || slices.Contains([]string{"offline", "disabled", "dryrun"}, os.Getenv("WANDB_MODE"))
}

// Validate refuses an address that is none.
func (w *wandb) Validate() error {
	return errors.Join(isAddress("base_url", w.BaseURL), w.Follower.Validate())
}

// item is a key with a value as JSON.
func item(key, text string) []byte { return message(message(nil, 1, []byte(key)), 16, []byte(text)) }

// orNull is a text of GraphQL that may be missing.
func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func jsonText(text string) string {
	b, _ := json.Marshal(text) // every text has a form in JSON
	return string(b)
}

// pythonNumber writes a number as Python's json does.
func pythonNumber(v float64) string {
	return cmp.Or(experience.NotFinite(v), strconv.FormatFloat(v, 'g', -1, 64))
}
