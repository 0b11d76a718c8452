package labelstudio_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/retry"
	"github.com/trinity-go/trinity/operator/labelstudio"
	"github.com/trinity-go/trinity/trinitytest"
)

func client(t *testing.T, address, key string) *labelstudio.Client {
	t.Helper()
	c, err := labelstudio.NewClient(address, key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const view = `<View><Pairwise name="p" toName="a,b"/></View>`

func TestBothKindsOfKeysWork(t *testing.T) {
	for _, key := range []string{trinitytest.Key, trinitytest.PersonalKey} {
		ls := trinitytest.NewLabelStudio(t)
		c := client(t, ls.URL+"/", key)
		p, err := c.CreateProject(t.Context(), "pairs", view)
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		ls.Expire() // after five minutes
		if got, err := c.Project(t.Context(), p.ID); err != nil || got.Title != "pairs" {
			t.Errorf("%s: %+v, %v", key, got, err)
		}
		if got := c.Page(p); got != ls.URL+"/projects/1/data" {
			t.Errorf("the page is %s", got)
		}
	}
}

func TestFindProjectWantsTheExactTitle(t *testing.T) {
	ls := trinitytest.NewLabelStudio(t)
	c := client(t, ls.URL, trinitytest.Key)
	for i := range 120 {
		if _, err := c.CreateProject(t.Context(), fmt.Sprintf("Pairs of x %d", i), view); err != nil {
			t.Fatal(err)
		}
	}
	for title, want := range map[string]int{"Pairs of x 0": 1, "Pairs of x 119": 120, "Pairs of x": 0, "pairs of x 1": 0, "other": 0} {
		if p, ok, err := c.FindProject(t.Context(), title); err != nil || p.ID != want || ok != (want > 0) {
			t.Errorf("%q: %+v, %v, %v, want %d", title, p, ok, err, want)
		}
	}
}

func TestTasksListsEveryPage(t *testing.T) {
	for _, n := range []int{0, 1, 99, 100, 101, 250} {
		ls := trinitytest.NewLabelStudio(t)
		ls.Annotate = func(data map[string]any) string { return data["say"].(string) }
		c := client(t, ls.URL, trinitytest.Key)
		for _, title := range []string{"one", "two"} {
			p, err := c.CreateProject(t.Context(), title, view)
			if err != nil {
				t.Fatal(err)
			}
			var data []map[string]any
			for i := range n {
				data = append(data, map[string]any{"i": float64(i), "say": []string{"left", "skip", ""}[i%3]})
			}
			if n > 0 {
				if err := c.Import(t.Context(), p.ID, data); err != nil {
					t.Fatal(err)
				}
			}
		}
		i := 0
		for task, err := range c.Tasks(t.Context(), 2) {
			if err != nil {
				t.Fatal(err)
			}
			a := task.Annotations
			good := map[int]bool{
				0: len(a) == 1 && !a[0].Cancelled && len(a[0].Result) == 1 && a[0].Result[0].Type == "pairwise" &&
					a[0].Result[0].Value.Selected == "left",
				1: len(a) == 1 && a[0].Cancelled, 2: len(a) == 0,
			}
			if task.Data["i"] != float64(i) || !good[i%3] {
				t.Errorf("task %d: %+v", i, task)
			}
			i++
		}
		if i != n {
			t.Errorf("%d tasks, want %d", i, n)
		}
		if p, err := c.Project(t.Context(), 2); err != nil || p.Annotations != n-n/3 {
			t.Errorf("%d annotations, %v, want %d", p.Annotations, err, n-n/3)
		}
	}
}

func TestErrorsSayWhetherTheyAreTemporary(t *testing.T) {
	for status, temporary := range map[int]bool{400: false, 403: false, 404: false, 408: true, 429: true, 500: true, 503: true} {
		ls := trinitytest.NewLabelStudio(t)
		ls.Fail = func(string, string, bool) int { return status }
		_, err := client(t, ls.URL, trinitytest.Key).Project(t.Context(), 7)
		want := fmt.Sprintf("GET %s/api/projects/7/: %d %s", ls.URL, status, http.StatusText(status))
		if err == nil || !strings.Contains(err.Error(), want) || retry.IsTemporary(err) != temporary {
			t.Errorf("%d: %v, temporary %v", status, err, retry.IsTemporary(err))
		}
	}
	ls := trinitytest.NewLabelStudio(t)
	c := client(t, ls.URL, trinitytest.Key)
	ls.Close()
	if _, err := c.Project(t.Context(), 1); !retry.IsTemporary(err) {
		t.Errorf("no server: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Project(ctx, 1); !errors.Is(err, context.Canceled) || retry.IsTemporary(err) {
		t.Errorf("cancelled: %v", err)
	}
	for _, address := range []string{"", "localhost:8080", "ftp://x", "http://"} {
		if _, err := labelstudio.NewClient(address, ""); err == nil {
			t.Errorf("%q is an address", address)
		}
	}
}

func TestBellRingsAfterAnnotations(t *testing.T) {
	ls := trinitytest.NewLabelStudio(t)
	c := client(t, ls.URL, trinitytest.Key)
	p, err := c.CreateProject(t.Context(), "pairs", view)
	if err != nil {
		t.Fatal(err)
	}
	ls.AddHook("http://127.0.0.1:9/trinity-annotations/old")
	ls.AddHook("http://10.0.0.1:9/trinity-annotations/of-another-machine")
	bell, err := c.HangBell(t.Context(), p.ID, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hooks := ls.Hooks()
	if len(hooks) != 2 || strings.Contains(hooks[0], ":9/trinity-annotations/old") || !strings.HasPrefix(hooks[1], "http://127.0.0.1:") {
		t.Fatalf("webhooks are %v", hooks)
	}
	if resp, err := http.Post(hooks[1]+"x", "text/plain", nil); err != nil || resp.StatusCode != http.StatusNotFound {
		t.Errorf("foreign request: %v, %v", resp, err)
	}
	if len(bell.Rung) > 0 {
		t.Error("the bell rang for a foreign request")
	}
	ls.Say(nil)
	ls.Say(nil) // a ring does not wait for the receiver
	<-bell.Rung
	if err := bell.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if got := ls.Hooks(); !slices.Equal(got, hooks[:1]) {
		t.Errorf("webhooks left are %v, want %v", got, hooks[:1])
	}
	ls.Fail = func(method, path string, _ bool) int { return 403 }
	if _, err := c.HangBell(t.Context(), p.ID, "127.0.0.1:0"); err == nil {
		t.Error("HangBell succeeded although no webhook was registered")
	}
}
