package rows

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/operator/labelstudio"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.TaskOperators.Register("human_preference_annotation_mapper",
		"Asks people in Label Studio which of two answers is better. It writes that answer to chosen_key and "+
			"the other one to rejected_key. It imports tasks into the project project_id. If project_id is not "+
			"set, it uses the project named by project_name_prefix and a checksum of the interface, and creates "+
			"it if it does not exist. Texts identify a task: no run imports or asks again what an earlier run "+
			"has imported or people have annotated. The statistic annotation_task_id is the task's number. Rows "+
			"that annotators skip, or on which they are divided, are dropped. Unlike Data-Juicer: if annotations "+
			"are missing after timeout, or without wait_for_annotations, it ends with an error that says where "+
			"to annotate, because a run cannot learn from rows without them; running again resumes. A hash of "+
			"the texts decides which answer stands left, because the model would learn the annotators' "+
			"preference for a side. It does not import other fields of a row, because a model's name would bias "+
			"people.",
		func() trinity.TaskOperator {
			return &humanPreference{
				ProjectNamePrefix: "DataJuicer_Annotation", Timeout: 3600, PollInterval: 60, SamplesPerTask: 1, MaxTasksPerBatch: 100,
				PromptKey: "prompt", Answer1Key: "answer1", Answer2Key: "answer2", ChosenKey: "chosen", RejectedKey: "rejected",
			}
		})
}

// humanPreference asks people in Label Studio to compare the two answers of each row.
type humanPreference struct {
	APIURL             string          `yaml:"api_url" doc:"address of Label Studio"`
	APIKey             string          `yaml:"api_key" secret:"true" doc:"key of a user; default: LABEL_STUDIO_API_KEY of the environment"`
	ProjectNamePrefix  string          `yaml:"project_name_prefix" doc:"prefix of the project's name"`
	ProjectID          *int            `yaml:"project_id" doc:"number of a project to use instead of the one found by name"`
	LabelConfigFile    string          `yaml:"label_config_file" doc:"XML of the page with $prompt, $answer1 and $answer2; default: built in"`
	WaitForAnnotations bool            `yaml:"wait_for_annotations" doc:"wait; false is an error unless all tasks are annotated"`
	Timeout            float64         `yaml:"timeout" range:"(0,inf]" doc:"seconds without a new annotation until the wait ends in an error"`
	PollInterval       float64         `yaml:"poll_interval" range:"(0,inf]" doc:"seconds between polls for annotations without a webhook"`
	MaxTasksPerBatch   int             `yaml:"max_tasks_per_batch" range:"[1,)" doc:"tasks in one import"`
	SamplesPerTask     int             `yaml:"samples_per_task" range:"[1,1]" doc:"answers of a task: one pair"`
	WebhookAddr        string          `yaml:"webhook_addr" doc:"host:port for Label Studio's webhook; default: loopback if it runs there"`
	PromptKey          string          `yaml:"prompt_key" doc:"field of the prompt"`
	Answer1Key         string          `yaml:"answer1_key" doc:"field of an answer"`
	Answer2Key         string          `yaml:"answer2_key" doc:"field of the other answer"`
	ChosenKey          string          `yaml:"chosen_key" doc:"field to write the better answer to"`
	RejectedKey        string          `yaml:"rejected_key" doc:"field to write the other answer to"`
	NotificationConfig notifications   `yaml:"notification_config" doc:"enabled, slack {enabled, webhook_url, channel, username}"`
	NotificationEvents map[string]bool `yaml:"notification_events" doc:"events and whether they notify; annotation_completed is off"`

	say     func(string)
	client  *labelstudio.Client
	project labelstudio.Project
	tasks   map[string]labelstudio.Task // of the project, by key
}

// rowKey is the field of a task that identifies its row.
const rowKey = "trinity_row"

// Validate checks what it can without the server.
func (h *humanPreference) Validate() error {
	if _, err := labelstudio.NewClient(h.APIURL, ""); err != nil {
		return fmt.Errorf("api_url: %w", err)
	}
	for event, wanted := range h.NotificationEvents {
		if _, known := toldOf[event]; wanted && !known {
			return fmt.Errorf("notification_events: unknown event %q: want %v", event, slices.Sorted(maps.Keys(toldOf)))
		}
	}
	if err := h.NotificationConfig.Validate(); err != nil {
		return fmt.Errorf("notification_config: %w", err)
	}
	return nil
}

const (
	batchCreated        = "batch_created"
	annotationCompleted = "annotation_completed"
	projectCompleted    = "project_completed"
	errorOccurred       = "error_occurred"
)

// toldOf holds the events that people can be notified of, and the defaults of notification_events.
var toldOf = map[string]bool{batchCreated: true, annotationCompleted: false, projectCompleted: true, errorOccurred: true}

// tell logs a text and sends it to people if they want the event. It logs a notification that
// fails.
func (h *humanPreference) tell(ctx context.Context, event, text string) {
	h.say(text)
	wanted, set := h.NotificationEvents[event]
	if !set {
		wanted = toldOf[event]
	}
	if !wanted {
		return
	}
	if err := h.NotificationConfig.Send(ctx, "Trinity: "+h.project.Title, text); err != nil {
		h.say(fmt.Sprintf("the notification failed: %v", err))
	}
}

// UseTools implements ToolUser.
func (h *humanPreference) UseTools(t Tools) { h.say = t.Say }

// Process implements trinity.TaskOperator.
func (h *humanPreference) Process(ctx context.Context, rows []*trinity.TaskRow) ([]*trinity.TaskRow, error) {
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
		if ctx.Err() == nil {
			h.tell(ctx, errorOccurred, err.Error())
		}
		return nil, err
	}
	h.tell(ctx, projectCompleted, fmt.Sprintf("%d rows are annotated", len(rows)))
	return h.decided(rows, keys)
}

// data returns a row's texts for a task, and the key computed from them. The key also decides which
// answer comes first.
func (h *humanPreference) data(r *trinity.TaskRow) (map[string]any, error) {
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

// decided writes the annotators' choices into the rows, and drops rows without a choice.
func (h *humanPreference) decided(rows []*trinity.TaskRow, keys []string) ([]*trinity.TaskRow, error) {
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
		h.say(fmt.Sprintf("dropped %d of %d rows: annotators skipped them or were divided", n, len(rows)))
	}
	return kept, nil
}

// side returns the field of a task that an annotation selects.
var side = map[string]string{"left": "answer1", "right": "answer2", "answer1": "answer1", "answer2": "answer2"}

var opposite = map[string]string{"answer1": "answer2", "answer2": "answer1"}

// preferred returns the field of the answer that most annotators chose, "" for a tie.
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
				return "", fmt.Errorf("an annotation selects %q: want left or right", r.Value.Selected)
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
