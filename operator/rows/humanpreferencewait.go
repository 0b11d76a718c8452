package rows

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/trinity-go/trinity/internal/retry"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/operator/labelstudio"
)

//go:embed humanpreference.xml
var preferenceView string

// maxImports bounds the attempts of an import that fails temporarily.
const maxImports = 5

// open finds or creates the project.
func (h *humanPreference) open(ctx context.Context) (err error) {
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

func (h *humanPreference) findProject(ctx context.Context, client *labelstudio.Client) (labelstudio.Project, error) {
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
func (h *humanPreference) look(ctx context.Context) error {
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

// bring imports the rows that the project lacks. Before each retry it lists the tasks, because a
// failed import may have added some.
func (h *humanPreference) bring(ctx context.Context, keys []string, texts map[string]map[string]any) error {
	for try := 1; ; try++ {
		err := h.look(ctx)
		if err == nil {
			err = h.importMissing(ctx, keys, texts)
		}
		if !retry.IsTemporary(err) || try == maxImports {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait.Seconds(min(h.PollInterval, 5))):
		}
	}
}

func (h *humanPreference) importMissing(ctx context.Context, keys []string, texts map[string]map[string]any) error {
	var missing []map[string]any
	for _, key := range keys {
		if _, ok := h.tasks[key]; !ok {
			h.tasks[key] = labelstudio.Task{} // a row that comes twice is one task
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
	h.tell(ctx, batchCreated, fmt.Sprintf("%d tasks imported; annotate at %s", len(missing), h.client.Page(h.project)))
	return nil
}

// await waits until all rows are annotated or skipped.
func (h *humanPreference) await(ctx context.Context, keys []string) error {
	var bell <-chan struct{}
	open, last := -1, time.Now()
	for rung := false; ; {
		if err := h.refresh(ctx, rung); err != nil && !retry.IsTemporary(err) {
			return err
		}
		n := h.unanswered(keys)
		switch {
		case n == 0:
			return nil
		case !h.WaitForAnnotations:
			return fmt.Errorf("%d of %d rows are not annotated: annotate at %s and run again, or set wait_for_annotations: true",
				n, len(keys), h.client.Page(h.project))
		case n != open:
			h.wait(ctx, open < 0, fmt.Sprintf("%d of %d rows wait for annotators at %s", n, len(keys), h.client.Page(h.project)))
			open, last = n, time.Now()
		case time.Since(last).Seconds() > h.Timeout:
			return fmt.Errorf("%d of %d rows are not annotated, and no annotation came for timeout = %g s: annotate at %s and run again",
				n, len(keys), h.Timeout, h.client.Page(h.project))
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

// wait logs what the operator waits for. People were notified when the wait began.
func (h *humanPreference) wait(ctx context.Context, begins bool, text string) {
	if begins {
		h.say(text)
		return
	}
	h.tell(ctx, annotationCompleted, text)
}

// refresh lists the tasks again after a webhook, or if the number of annotations has changed.
func (h *humanPreference) refresh(ctx context.Context, told bool) error {
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

// hang registers a webhook for annotations if Label Studio can reach this machine. Otherwise the
// operator only polls.
func (h *humanPreference) hang(ctx context.Context) (rung <-chan struct{}, down func()) {
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
		h.say(fmt.Sprintf("polling Label Studio every %g s, because registering a webhook failed: %v", h.PollInterval, err))
		return never, func() {}
	}
	return bell.Rung, func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := bell.Close(last); err != nil {
			h.say(fmt.Sprintf("removing the webhook failed, so it stays registered: %v", err))
		}
	}
}

// settle is the delay between the webhook and the query: Label Studio posts before it has stored
// the annotation.
const settle = 300 * time.Millisecond

// pause waits for the webhook, if there is one, for at most poll_interval.
func (h *humanPreference) pause(ctx context.Context, bell <-chan struct{}) (rung bool, err error) {
	poll := time.After(wait.Seconds(h.PollInterval))
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

func (h *humanPreference) unanswered(keys []string) int {
	n := 0
	for _, key := range keys {
		if len(h.tasks[key].Annotations) == 0 {
			n++
		}
	}
	return n
}
