package rows

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

// comparing returns arguments for a server whose annotators prefer the longer answer.
func comparing(t *testing.T) args {
	ls := trinitytest.NewLabelStudio(t)
	ls.Annotate = longer
	a := asking(ls)
	a["prompt_key"], a["answer1_key"], a["answer2_key"] = "text", "question", "answer"
	return a
}

func asking(ls *trinitytest.LabelStudio) args {
	return args{"api_url": ls.URL, "api_key": trinitytest.Key, "wait_for_annotations": true, "timeout": 20.0,
		"poll_interval": 0.01, "max_tasks_per_batch": 2}
}

// longer returns the side of the longer answer, or "" if both have the same length.
func longer(data map[string]any) string {
	one, two := len(data["answer1"].(string)), len(data["answer2"].(string))
	switch {
	case one > two:
		return "left"
	case one < two:
		return "right"
	}
	return "skip"
}

// compared returns rows with answers of different lengths. Even rows have the longer answer first.
func compared(n int) []*trinity.TaskRow {
	var rows []*trinity.TaskRow
	for i := range n {
		answers := [2]string{"long answer", "short"}
		r := row(args{"prompt": fmt.Sprint("p", i), "answer1": answers[i%2], "answer2": answers[1-i%2], "model": "secret"})
		rows = append(rows, r)
	}
	return rows
}

// mapper returns the operator. said gets its log lines.
func mapper(t *testing.T, a args, said func(string)) trinity.TaskOperator {
	t.Helper()
	op, err := registry.TaskOperators.Build("human_preference_annotation_mapper", a)
	if err != nil {
		t.Fatal(err)
	}
	op.(ToolUser).UseTools(Tools{Say: said})
	return op
}

func quiet(string) {}

// wantLonger fails the test unless the longer answer is chosen in n rows.
func wantLonger(t *testing.T, rows []*trinity.TaskRow, n int) {
	t.Helper()
	if len(rows) != n {
		t.Fatalf("%d rows, want %d", len(rows), n)
	}
	for _, r := range rows {
		if r.Row["chosen"] != "long answer" || r.Row["rejected"] != "short" || r.Stats["annotation_task_id"].(int) < 100 {
			t.Errorf("%v %v", r.Row, r.Stats)
		}
	}
}

// People annotate while the operator waits. The webhook wakes it, and it removes the webhook at the
// end.
func TestOperatorWaitsForAnnotators(t *testing.T) {
	ls := trinitytest.NewLabelStudio(t)
	a := asking(ls)
	a["poll_interval"] = 600.0 // so that the webhook wakes it, not a poll
	ls.AddHook("http://127.0.0.1:9/trinity-annotations/of-a-killed-process")
	ls.AddHook("http://127.0.0.1:9/of-somebody-else")
	ls.Registered = func() { ls.Say(longer) }
	var said []string
	op := mapper(t, a, func(text string) { said = append(said, text) })
	kept, err := op.Process(t.Context(), append(compared(5), compared(1)...)) // one row comes twice
	if err != nil {
		t.Fatal(err)
	}
	wantLonger(t, kept, 6)
	if n := len(ls.Tasks()); n != 5 {
		t.Errorf("%d tasks, want 5", n)
	}
	if want := "6 of 6 rows wait for annotators at " + ls.URL + "/projects/1/data"; !slices.Contains(said, want) {
		t.Errorf("it says %q, want %q", said, want)
	}
	if got := ls.Hooks(); !slices.Equal(got, []string{"http://127.0.0.1:9/of-somebody-else"}) {
		t.Errorf("webhooks left: %v", got)
	}
	if n := ls.Count("POST /api/projects/1/import"); n != 3 {
		t.Errorf("%d imports of 2 tasks each, want 3", n)
	}
	first := map[any]int{}
	for _, d := range ls.Tasks() {
		first[d["answer1"]]++
		if d["model"] != nil || len(d) != 4 {
			t.Errorf("a task has %v", d)
		}
	}
	if len(first) != 2 {
		t.Errorf("the same answer stands left in all tasks: %v", first)
	}
}

// A resumed run imports nothing twice and asks nothing again.
func TestComparingResumes(t *testing.T) {
	ls := trinitytest.NewLabelStudio(t)
	a := asking(ls)
	a["wait_for_annotations"] = false
	_, err := mapper(t, a, quiet).Process(t.Context(), compared(4))
	if err == nil || !strings.Contains(err.Error(), "4 of 4 rows are not annotated: annotate at "+ls.URL+"/projects/1/data") {
		t.Fatalf("without waiting: %v", err)
	}
	ls.Say(longer)
	a["timeout"] = 0.05
	a["wait_for_annotations"] = true
	_, err = mapper(t, a, quiet).Process(t.Context(), compared(6))
	if err == nil || !strings.Contains(err.Error(), "2 of 6 rows are not annotated, and no annotation came for timeout = 0.05 s") {
		t.Fatalf("after the timeout: %v", err)
	}
	ls.Say(longer)
	kept, err := mapper(t, a, quiet).Process(t.Context(), append(compared(6), compared(1)...))
	if err != nil {
		t.Fatal(err)
	}
	wantLonger(t, kept, 7)
	if n := len(ls.Tasks()); n != 6 || len(ls.Projects()) != 1 {
		t.Errorf("%d tasks in %v, want 6 in one project", n, ls.Projects())
	}
	a["project_id"] = 1
	if kept, err = mapper(t, a, quiet).Process(t.Context(), compared(6)); err != nil {
		t.Fatal(err)
	}
	wantLonger(t, kept, 6)
	a["project_name_prefix"], a["project_id"] = "another", nil
	a["wait_for_annotations"] = false
	if _, err := mapper(t, a, quiet).Process(t.Context(), compared(1)); err == nil || len(ls.Projects()) != 2 {
		t.Errorf("another prefix: %v, projects %v", err, ls.Projects())
	}
}

// The operator retries an import that failed, but not an import that succeeded without an answer.
func TestImportsHappenOnce(t *testing.T) {
	for name, after := range map[string]bool{"lost answer": true, "not carried out": false} {
		t.Run(name, func(t *testing.T) {
			ls := trinitytest.NewLabelStudio(t)
			ls.Annotate = longer
			failed := 0
			ls.Fail = func(method, path string, done bool) int {
				if strings.HasSuffix(path, "/import") && done == after && failed < 2 {
					failed++
					return 502
				}
				return 0
			}
			kept, err := mapper(t, asking(ls), quiet).Process(t.Context(), compared(5))
			if err != nil {
				t.Fatal(err)
			}
			wantLonger(t, kept, 5)
			if n := len(ls.Tasks()); n != 5 {
				t.Errorf("%d tasks, want 5", n)
			}
		})
	}
}

func TestRowsWithoutPreferenceAreDropped(t *testing.T) {
	ls := trinitytest.NewLabelStudio(t)
	ls.Annotate = func(data map[string]any) string {
		if data["prompt"] == "p1" {
			return "skip"
		}
		return longer(data)
	}
	var said []string
	kept, err := mapper(t, asking(ls), func(s string) { said = append(said, s) }).Process(t.Context(), compared(3))
	if err != nil {
		t.Fatal(err)
	}
	wantLonger(t, kept, 2)
	if got := strings.Join(said, "\n"); !strings.Contains(got, "dropped 1 of 3 rows") {
		t.Errorf("it says %s", got)
	}
}

// The operator notifies people when tasks wait, when all rows are annotated and when the wait ends
// with an error. A notification that fails does not stop it.
func TestPeopleAreNotified(t *testing.T) {
	var told []string
	status := 200
	slack := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		told = append(told, string(text))
		w.WriteHeader(status)
	}))
	t.Cleanup(slack.Close)
	ls := trinitytest.NewLabelStudio(t)
	a := asking(ls)
	a["wait_for_annotations"] = false
	a["notification_config"] = args{"enabled": true, "slack": args{"webhook_url": slack.URL}, "email": args{"enabled": false}}
	a["notification_events"] = args{"task_created": false}
	if _, err := mapper(t, a, quiet).Process(t.Context(), compared(2)); err == nil {
		t.Fatal("nothing is annotated")
	}
	ls.Say(longer)
	if _, err := mapper(t, a, quiet).Process(t.Context(), compared(2)); err != nil {
		t.Fatal(err)
	}
	all := strings.Join(told, " ")
	if len(told) != 3 || !strings.Contains(told[0], "2 tasks imported; annotate at "+ls.URL) ||
		!strings.Contains(told[1], "are not annotated") || !strings.Contains(told[2], "2 rows are annotated") {
		t.Errorf("told: %s", all)
	}
	status = 500
	a["notification_events"] = args{"batch_created": false}
	ls.Annotate = longer
	var said []string
	if _, err := mapper(t, a, func(s string) { said = append(said, s) }).Process(t.Context(), compared(3)); err != nil {
		t.Fatal(err)
	}
	if len(told) != 4 || !strings.Contains(strings.Join(said, " "), "the notification failed: slack: 500") {
		t.Errorf("told %d times; it says %q", len(told), said)
	}
}

// With annotation_completed the operator notifies people whenever it finds new annotations.
func TestPeopleAreNotifiedOfAnnotations(t *testing.T) {
	told := make(chan string, 9)
	slack := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		told <- string(text)
	}))
	t.Cleanup(slack.Close)
	ls := trinitytest.NewLabelStudio(t)
	a := asking(ls)
	a["poll_interval"] = 600.0
	a["notification_config"] = args{"enabled": true, "slack": args{"webhook_url": slack.URL}}
	a["notification_events"] = args{"annotation_completed": true, "batch_created": false, "project_completed": false}
	first := func(data map[string]any) string {
		if data["prompt"] == "p0" {
			return longer(data)
		}
		return ""
	}
	ls.Registered = func() { ls.Say(first) }
	op := mapper(t, a, func(s string) {
		if strings.HasPrefix(s, "1 of 2 rows wait") {
			go ls.Say(longer)
		}
	})
	if _, err := op.Process(t.Context(), compared(2)); err != nil {
		t.Fatal(err)
	}
	if text := <-told; !strings.Contains(text, "1 of 2 rows wait for annotators") || len(told) > 0 {
		t.Errorf("told %s, and %d more", text, len(told))
	}
}

func TestComparingReportsErrors(t *testing.T) {
	ls := trinitytest.NewLabelStudio(t)
	for want, c := range map[string]struct {
		args args
		row  args
	}{
		`field "answer2"`:                     {nil, args{"prompt": "p", "answer1": "a"}},
		"is a number, want text":              {nil, args{"prompt": 1.0, "answer1": "a", "answer2": "b"}},
		"401 Unauthorized":                    {args{"api_key": "wrong"}, args{"prompt": "p", "answer1": "a", "answer2": "b"}},
		"check the key":                       {args{"api_key": "wrong.personal.key"}, args{"prompt": "p", "answer1": "a", "answer2": "b"}},
		"404 Not Found":                       {args{"project_id": 77}, args{"prompt": "p", "answer1": "a", "answer2": "b"}},
		"label_config_file: open nowhere.xml": {args{"label_config_file": "nowhere.xml"}, args{"prompt": "p", "answer1": "a", "answer2": "b"}},
	} {
		a := asking(ls)
		for k, v := range c.args {
			a[k] = v
		}
		if _, err := mapper(t, a, quiet).Process(t.Context(), []*trinity.TaskRow{row(c.row)}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	for want, a := range map[string]args{
		"api_url: address \"\" of Label Studio":               {},
		"timeout: must be more":                               {"api_url": ls.URL, "timeout": 0},
		"poll_interval: must be":                              {"api_url": ls.URL, "poll_interval": 0},
		"max_tasks_per_batch: must":                           {"api_url": ls.URL, "max_tasks_per_batch": 0},
		"samples_per_task: must be 1":                         {"api_url": ls.URL, "samples_per_task": 2},
		"notification_config: enabled, but no":                {"api_url": ls.URL, "notification_config": args{"enabled": true}},
		"notification_config.slack: has inval":                {"api_url": ls.URL, "notification_config": args{"slack": args{"webhook": "x"}}},
		"notification_events: unknown event \"task_created\"": {"api_url": ls.URL, "notification_events": args{"task_created": true}},
	} {
		if _, err := registry.TaskOperators.Build("human_preference_annotation_mapper", a); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestComparingStopsWithItsContext(t *testing.T) {
	ls := trinitytest.NewLabelStudio(t)
	ctx, cancel := context.WithCancel(t.Context())
	op := mapper(t, asking(ls), func(s string) {
		if strings.Contains(s, "wait for annotators") {
			cancel()
		}
	})
	if _, err := op.Process(ctx, compared(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if got := ls.Hooks(); len(got) > 0 {
		t.Errorf("webhooks left: %v", got)
	}
}
