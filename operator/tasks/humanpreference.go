package tasks

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/labelstudio"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.TaskOperators.Register("human_preference_annotation_mapper",
		"Has people say in Label Studio which of two answers is better, and writes it and the other one to chosen_key and rejected_key. Tasks are imported into the project project_id, or the "+
			"one whose name is project_name_prefix and a checksum of the interface, which is made when there is none. A task is known by its texts: what was imported before is not imported again, "+
			"and what was annotated before is not asked again, by whichever run. The statistic annotation_task_id is the task's number. Rows that were skipped, or on which annotators are "+
			"divided, are dropped. "+
			"Unlike Data-Juicer: where annotations are missing, after timeout or without wait_for_annotations, it ends with an error that says where to annotate, because rows without them cannot be "+
			"learnt from; the same run goes on. Which answer stands left is drawn, because a liking for one side would be learnt. Other fields of a row are not imported, because a model's "+
			"name would bias people.",
		func() trinity.TaskOperator {
			return &HumanPreference{
				ProjectNamePrefix: "DataJuicer_Annotation", Timeout: 3600, PollInterval: 60, SamplesPerTask: 1, MaxTasksPerBatch: 100,
				PromptKey: "prompt", Answer1Key: "answer1", Answer2Key: "answer2", ChosenKey: "chosen", RejectedKey: "rejected",
			}
		})
}

// HumanPreference has people compare the two answers of each row.
type HumanPreference struct {
	APIURL             string         `yaml:"api_url" doc:"address of Label Studio"`
	APIKey             string         `yaml:"api_key" doc:"personal access token or legacy token of a user; not set: LABEL_STUDIO_API_KEY of the environment"`
	ProjectNamePrefix  string         `yaml:"project_name_prefix" doc:"what the project's name begins with"`
	ProjectID          *int           `yaml:"project_id" doc:"number of a project to use in place of one by name"`
	LabelConfigFile    string         `yaml:"label_config_file" doc:"what annotators see, XML with a Pairwise of the texts $answer1 and $answer2, and $prompt; not set: a built-in one"`
	WaitForAnnotations bool           `yaml:"wait_for_annotations" doc:"wait; without, end when the tasks are imported, unless all are annotated"`
	Timeout            float64        `yaml:"timeout" doc:"seconds without a new annotation after which the wait ends"`
	PollInterval       float64        `yaml:"poll_interval" doc:"seconds between looks for new annotations, where Label Studio does not tell of them"`
	MaxTasksPerBatch   int            `yaml:"max_tasks_per_batch" doc:"tasks that are imported at once"`
	SamplesPerTask     int            `yaml:"samples_per_task" doc:"1"`
	WebhookAddr        string         `yaml:"webhook_addr" doc:"address of this machine at which Label Studio is to tell of annotations, host:port; not set: one on the loopback interface if Label Studio is there, else none"`
	PromptKey          string         `yaml:"prompt_key" doc:"field of the prompt"`
	Answer1Key         string         `yaml:"answer1_key" doc:"field of an answer"`
	Answer2Key         string         `yaml:"answer2_key" doc:"field of the other answer"`
	ChosenKey          string         `yaml:"chosen_key" doc:"field to write the better answer to"`
	RejectedKey        string         `yaml:"rejected_key" doc:"field to write the other one to"`
	NotificationConfig map[string]any `yaml:"notification_config" doc:"enabled: false, or none; the log says what is waited for"`

	say     func(string)
	client  *labelstudio.Client
	project labelstudio.Project
	tasks   map[string]labelstudio.Task // of the project, by key
}

//go:embed humanpreference.xml
var preferenceView string

// rowKey is the field of a task by which its row is known.
const rowKey = "trinity_row"

// maxImports is how often an import is tried whose answer does not come.
const maxImports = 5

// Validate checks what can be known before the server is asked.
func (h *HumanPreference) Validate() error {
	if _, err := labelstudio.NewClient(h.APIURL, ""); err != nil {
		return fmt.Errorf("api_url: %w", err)
	}
	switch {
	case !(h.Timeout > 0):
		return fmt.Errorf("timeout: must be more than 0 seconds, got %g", h.Timeout)
	case !(h.PollInterval > 0):
		return fmt.Errorf("poll_interval: must be more than 0 seconds, got %g", h.PollInterval)
	case h.MaxTasksPerBatch < 1:
		return fmt.Errorf("max_tasks_per_batch: must be at least 1, got %d", h.MaxTasksPerBatch)
	case h.SamplesPerTask != 1:
		return fmt.Errorf("samples_per_task: must be 1, which is what two answers to one prompt are, got %d", h.SamplesPerTask)
	case h.NotificationConfig["enabled"] == true:
		return errors.New("notification_config: mail and messages are not built in; set enabled: false, the log says what is waited for")
	}
	return nil
}

// UseTools implements trinity.TaskToolUser.
func (h *HumanPreference) UseTools(t trinity.TaskTools) { h.say = t.Say }

// Process implements trinity.TaskOperator.
func (h *HumanPreference) Process(ctx context.Context, rows []*trinity.TaskRow) ([]*trinity.TaskRow, error) {
	keys := make([]string, len(rows))
	texts := map[string]map[string]any{}
	for i, r := range rows {
		data, err := h.data(r)
		if err != nil {
			return nil, err
		}
		keys[i] = data[rowKey].(string)
		texts[keys[i]] = data
	}
	if len(rows) == 0 {
		return nil, nil
	}
	if err := h.open(ctx); err != nil {
		return nil, err
	}
	if err := h.bring(ctx, keys, texts); err != nil {
		return nil, err
	}
	if err := h.await(ctx, keys); err != nil {
		return nil, err
	}
	return h.decided(rows, keys)
}

// data are a row's texts for a task, with a key that they give. Which answer comes first is drawn from the key.
func (h *HumanPreference) data(r *trinity.TaskRow) (map[string]any, error) {
	var texts [3]string
	for i, key := range []string{h.PromptKey, h.Answer1Key, h.Answer2Key} {
		var err error
		if texts[i], err = text(r, key); err != nil {
			return nil, err
		}
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", texts))
	left := int(sum[31] & 1)
	return map[string]any{rowKey: fmt.Sprintf("%x", sum[:8]), "prompt": texts[0], "answer1": texts[1+left], "answer2": texts[2-left]}, nil
}

// open finds the project or makes it.
func (h *HumanPreference) open(ctx context.Context) (err error) {
	if h.client != nil {
		return nil
	}
	key := h.APIKey
	if key == "" {
		key = os.Getenv("LABEL_STUDIO_API_KEY")
	}
	client, err := labelstudio.NewClient(h.APIURL, key)
	if err != nil {
		return err
	}
	if h.project, err = h.findProject(ctx, client); err == nil {
		h.client = client
	}
	return err
}

func (h *HumanPreference) findProject(ctx context.Context, client *labelstudio.Client) (labelstudio.Project, error) {
	if h.ProjectID != nil {
		return client.Project(ctx, *h.ProjectID)
	}
	view := preferenceView
	if h.LabelConfigFile != "" {
		file, err := os.ReadFile(h.LabelConfigFile)
		if err != nil {
			return labelstudio.Project{}, fmt.Errorf("label_config_file: %w", err)
		}
		view = string(file)
	}
	title := fmt.Sprintf("%s_%.6x", h.ProjectNamePrefix, sha256.Sum256([]byte(view)))
	p, ok, err := client.FindProject(ctx, title)
	if ok || err != nil {
		return p, err
	}
	return client.CreateProject(ctx, title, view)
}

// look lists the project's tasks.
func (h *HumanPreference) look(ctx context.Context) error {
	tasks := map[string]labelstudio.Task{}
	for t, err := range h.client.Tasks(ctx, h.project.ID) {
		if err != nil {
			return err
		}
		if key, ok := t.Data[rowKey].(string); ok {
			tasks[key] = t
		}
	}
	h.tasks = tasks
	return nil
}

// bring imports the rows that the project does not have. Before an import is tried again it looks what came of it.
func (h *HumanPreference) bring(ctx context.Context, keys []string, texts map[string]map[string]any) error {
	for try := 1; ; try++ {
		err := h.look(ctx)
		if err == nil {
			err = h.importMissing(ctx, keys, texts)
		}
		if !labelstudio.IsTemporary(err) || try == maxImports {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(seconds(min(h.PollInterval, 5))):
		}
	}
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

func (h *HumanPreference) importMissing(ctx context.Context, keys []string, texts map[string]map[string]any) error {
	var missing []map[string]any
	for _, key := range keys {
		if _, ok := h.tasks[key]; !ok {
			h.tasks[key] = labelstudio.Task{} // so that a row that comes twice is one task
			missing = append(missing, texts[key])
		}
	}
	for batch := range slices.Chunk(missing, h.MaxTasksPerBatch) {
		if err := h.client.Import(ctx, h.project.ID, batch); err != nil {
			return err
		}
	}
	if len(missing) == 0 {
		return nil
	}
	h.say(fmt.Sprintf("%d tasks imported; annotate at %s", len(missing), h.client.Page(h.project)))
	return nil
}

// await waits until all rows are annotated or skipped.
func (h *HumanPreference) await(ctx context.Context, keys []string) error {
	var bell <-chan struct{}
	open, last := -1, time.Now()
	for rung := false; ; {
		if err := h.refresh(ctx, rung); err != nil && !labelstudio.IsTemporary(err) {
			return err
		}
		n := h.unanswered(keys)
		switch {
		case n == 0:
			return nil
		case !h.WaitForAnnotations:
			return fmt.Errorf("%d of %d rows are not annotated: annotate at %s and run again, or set wait_for_annotations: true", n, len(keys), h.client.Page(h.project))
		case n != open:
			open, last = n, time.Now()
			h.say(fmt.Sprintf("%d of %d rows wait for annotators at %s", n, len(keys), h.client.Page(h.project)))
		case time.Since(last).Seconds() > h.Timeout:
			return fmt.Errorf("%d of %d rows are not annotated, and none was for timeout = %g s: annotate at %s and run again, it goes on", n, len(keys), h.Timeout, h.client.Page(h.project))
		}
		if bell == nil {
			b, down := h.hang(ctx)
			bell = b
			defer down()
		}
		var err error
		if rung, err = h.pause(ctx, bell); err != nil {
			return err
		}
	}
}

// refresh lists the tasks again if there is something new: because Label Studio says so, or by the number of annotations.
func (h *HumanPreference) refresh(ctx context.Context, told bool) error {
	now, err := h.client.Project(ctx, h.project.ID)
	if err != nil || now.Annotations == h.project.Annotations && !told {
		return err
	}
	if err := h.look(ctx); err != nil {
		return err
	}
	h.project = now
	return nil
}

// hang has Label Studio tell of annotations, where it can. Where it cannot, there is the poll.
func (h *HumanPreference) hang(ctx context.Context) (rung <-chan struct{}, down func()) {
	never := make(chan struct{})
	address := h.WebhookAddr
	if u, err := url.Parse(h.APIURL); address == "" && err == nil && slices.Contains([]string{"localhost", "127.0.0.1"}, u.Hostname()) {
		address = "127.0.0.1:0"
	}
	if address == "" {
		return never, func() {}
	}
	bell, err := h.client.HangBell(ctx, h.project.ID, address)
	if err != nil {
		h.say(fmt.Sprintf("Label Studio is asked every %g s, because no webhook could be registered: %v", h.PollInterval, err))
		return never, func() {}
	}
	return bell.Rung, func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := bell.Close(last); err != nil {
			h.say(fmt.Sprintf("the webhook stays registered: %v", err))
		}
	}
}

// settle is how long after the bell an annotation is looked for: Label Studio rings before it has kept it.
const settle = 300 * time.Millisecond

// pause waits for the bell, if there is one, at most poll_interval.
func (h *HumanPreference) pause(ctx context.Context, bell <-chan struct{}) (rung bool, err error) {
	poll := time.After(seconds(h.PollInterval))
	select {
	case <-ctx.Done():
		return false, context.Cause(ctx)
	case <-poll:
		return false, nil
	case <-bell:
	}
	select {
	case <-ctx.Done():
		return true, context.Cause(ctx)
	case <-poll:
	case <-time.After(settle):
	}
	return true, nil
}

func (h *HumanPreference) unanswered(keys []string) int {
	n := 0
	for _, key := range keys {
		if len(h.tasks[key].Annotations) == 0 {
			n++
		}
	}
	return n
}

// decided writes what the annotators chose, and leaves out rows of which they did not.
func (h *HumanPreference) decided(rows []*trinity.TaskRow, keys []string) ([]*trinity.TaskRow, error) {
	var kept []*trinity.TaskRow
	for i, r := range rows {
		task := h.tasks[keys[i]]
		better, err := preferred(task)
		if err != nil {
			return nil, fmt.Errorf("%s: task %d of %s: %w", r.Where, task.ID, h.client.Page(h.project), err)
		}
		if better == "" {
			continue
		}
		r.Stats["annotation_task_id"] = task.ID
		r.Row[h.ChosenKey], r.Row[h.RejectedKey] = task.Data[better], task.Data[opposite[better]]
		kept = append(kept, r)
	}
	if n := len(rows) - len(kept); n > 0 {
		h.say(fmt.Sprintf("%d of %d rows are dropped: annotators skipped them or were divided", n, len(rows)))
	}
	return kept, nil
}

// side names the field of a task that an annotation selects.
var side = map[string]string{"left": "answer1", "right": "answer2", "answer1": "answer1", "answer2": "answer2"}

var opposite = map[string]string{"answer1": "answer2", "answer2": "answer1"}

// preferred is the field of the answer that more annotators chose than the other; "" where neither is.
func preferred(task labelstudio.Task) (string, error) {
	lead := 0
	for _, a := range task.Annotations {
		for _, r := range a.Result {
			if a.Cancelled || r.Type != "pairwise" {
				continue
			}
			switch side[r.Value.Selected] {
			case "answer1":
				lead++
			case "answer2":
				lead--
			default:
				return "", fmt.Errorf("an annotation selects %q, want left or right", r.Value.Selected)
			}
		}
	}
	switch {
	case lead > 0:
		return "answer1", nil
	case lead < 0:
		return "answer2", nil
	}
	return "", nil
}
