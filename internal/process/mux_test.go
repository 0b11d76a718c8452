package process

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// muxProgram is the variable that makes the test's program answer questions.
const muxProgram = "PROCESS_TEST_MUX"

func init() {
	if os.Getenv(muxProgram) == "" {
		return
	}
	waiting, questions := map[uint64]bool{}, 0
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 8<<20)
	for lines.Scan() {
		var q struct {
			ID, Cancel uint64
			Do, Text   string
			Load       bool
		}
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(9)
		}
		questions++
		switch q.Do {
		case "echo":
			fmt.Printf(`{"text": %q, "id": %d}`+"\n", q.Text, q.ID)
		case "wait", "hang": // until others are asked, or it is given up
			waiting[q.ID] = q.Do == "wait"
		case "go":
			for id := range waiting {
				fmt.Printf(`{"id": %d, "text": "waited"}`+"\n", id)
				delete(waiting, id)
			}
			fmt.Printf(`{"id": %d, "text": "%d questions by %d"}`+"\n", q.ID, questions, os.Getpid())
		case "load": // and never answers
			if q.Load {
				fmt.Printf(`{"id": %d, "loaded": true}`+"\n", q.ID)
			}
			waiting[q.ID] = true
		case "fail":
			fmt.Printf(`{"id": %d, "error": {"kind": "timeout", "reason": "too slow"}}`+"\n", q.ID)
		case "exit":
			fmt.Fprintln(os.Stderr, "I go")
			os.Exit(3)
		case "twice":
			fmt.Printf(`{"id": %d}`+"\n"+`{"id": %[1]d}`+"\n", q.ID)
		case "stray":
			fmt.Println(q.Text)
		case "flood":
			fmt.Println(strings.Repeat("x", 2<<20))
		case "":
			if q.Cancel == 0 {
				fmt.Fprintln(os.Stderr, "the first line:", lines.Text())
			} else if waiting[q.Cancel] {
				delete(waiting, q.Cancel)
				fmt.Printf(`{"id": %d}`+"\n", q.Cancel)
			}
		}
	}
	os.Exit(0)
}

type textOf struct {
	Text string `json:"text"`
}

func newMux(t *testing.T, copies, atOnce int) *Mux {
	t.Helper()
	m := NewMux(Program{Command: []string{os.Args[0]}, Env: map[string]string{muxProgram: "1"}}, copies, atOnce, Lines{Most: 1 << 20})
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if err := m.Ask(context.Background(), Question{Do: "echo", Body: textOf{}}, &textOf{}); !errors.Is(err, ErrClosed) {
			t.Errorf("a closed mux says %v", err)
		}
	})
	return m
}

// ask asks in the background, and returns the result later.
func ask(ctx context.Context, m *Mux, do, text string) (wait func() (string, error)) {
	var answer textOf
	result := make(chan error, 1)
	go func() { result <- m.Ask(ctx, Question{Do: do, Body: textOf{text}}, &answer) }()
	return func() (string, error) {
		err := <-result
		return answer.Text, err
	}
}

// inFlight waits until a mux has this many questions.
func inFlight(t *testing.T, m *Mux, n int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); len(m.slots) != n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d questions are in flight, want %d", len(m.slots), n)
		}
	}
}

// sees waits until the program has read all questions before, and returns what go answers.
func sees(t *testing.T, m *Mux) string {
	t.Helper()
	text, err := ask(t.Context(), m, "go", "")()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestMuxAnswersInAnyOrder(t *testing.T) {
	m := newMux(t, 1, 8)
	var waits []func() (string, error)
	for i := range 5 {
		waits = append(waits, ask(t.Context(), m, "wait", ""))
		inFlight(t, m, i+1)
	}
	if text, err := ask(t.Context(), m, "echo", "ä\n\"")(); text != "ä\n\"" || err != nil {
		t.Error(text, err)
	}
	if text := sees(t, m); !strings.HasPrefix(text, "7 questions by ") {
		t.Error(text)
	}
	for _, wait := range waits {
		if text, err := wait(); text != "waited" || err != nil {
			t.Error(text, err)
		}
	}
	var told *ToldError
	err := m.Ask(t.Context(), Question{Do: "fail", Body: textOf{}}, &textOf{})
	if !errors.As(err, &told) || *told != (ToldError{Kind: "timeout", Reason: "too slow"}) {
		t.Error(err)
	}
}

// Questions go to the copy with the fewest, and wait if all are busy.
func TestMuxBoundsQuestions(t *testing.T) {
	m := newMux(t, 2, 2)
	ctx, cancel := context.WithCancelCause(t.Context())
	var waits []func() (string, error)
	for i := range 4 {
		waits = append(waits, ask(ctx, m, "wait", ""))
		inFlight(t, m, i+1)
	}
	m.mu.Lock()
	if a, b := count(m.copies[0]), count(m.copies[1]); a != 2 || b != 2 {
		t.Errorf("the copies have %d and %d questions", a, b)
	}
	m.mu.Unlock()
	late, stop := context.WithTimeoutCause(t.Context(), 10*time.Millisecond, errors.New("too late"))
	defer stop()
	if _, err := ask(late, m, "echo", "")(); err == nil || err.Error() != "4 questions are in flight: too late" {
		t.Error(err)
	}
	enough := errors.New("enough")
	cancel(enough)
	for _, wait := range waits {
		if _, err := wait(); !errors.Is(err, enough) {
			t.Error(err)
		}
	}
	inFlight(t, m, 0) // the program has given them up
}

func TestMuxFailsWhatACopyLeavesOpen(t *testing.T) {
	for do, want := range map[string]string{
		"exit":  "the program ended before it answered: exit status 3; it said: I go",
		"flood": "the program ended before it answered: it was killed, because it wrote a line of more than 1 MiB",
		"stray": `the program ended before it answered: it was killed, because it wrote "{\"id\": 99}", which answers no open question`,
	} {
		m := newMux(t, 1, 4)
		first, second := ask(t.Context(), m, "wait", ""), ask(t.Context(), m, "wait", "")
		inFlight(t, m, 2)
		_, err := ask(t.Context(), m, do, `{"id": 99}`)()
		_, err1 := first()
		_, err2 := second()
		for _, err := range []error{err, err1, err2} {
			if err == nil || err.Error() != want {
				t.Errorf("%s: %v, want %s", do, err, want)
			}
		}
		if text, err := ask(t.Context(), m, "echo", "again")(); text != "again" || err != nil {
			t.Errorf("after %s: %s, %v", do, text, err)
		}
		inFlight(t, m, 0)
	}
}

// A second answer to a question is nobody's: the process that gives it is not asked again.
func TestMuxTakesOneAnswer(t *testing.T) {
	m := newMux(t, 1, 4)
	before := sees(t, m)
	if err := m.Ask(t.Context(), Question{Do: "twice", Body: textOf{}}, &textOf{}); err != nil {
		t.Error(err)
	}
	for end := time.Now().Add(time.Minute); ; {
		text, err := ask(t.Context(), m, "go", "")()
		if err == nil && text[strings.Index(text, "by"):] != before[strings.Index(before, "by"):] {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the process is still asked")
		}
	}
}

// A program that does not give up a cancelled question is killed, and the others are told why.
func TestMuxKillsWhoDoesNotHeed(t *testing.T) {
	if testing.Short() {
		t.Skip("waits ten seconds")
	}
	t.Parallel()
	m := newMux(t, 1, 4)
	ctx, cancel := context.WithCancel(t.Context())
	hung := ask(ctx, m, "hang", "")
	inFlight(t, m, 1)
	other := ask(t.Context(), m, "wait", "")
	inFlight(t, m, 2)
	cancel()
	if _, err := hung(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	want := "the program ended before it answered: it was killed, because it did not give up another question (hang) within 10s"
	if _, err := other(); err == nil || err.Error() != want {
		t.Error(err)
	}
	inFlight(t, m, 0)
}

func TestMuxWritesTheFirstLine(t *testing.T) {
	m := NewMux(Program{Command: []string{os.Args[0]}, Env: map[string]string{muxProgram: "1"}}, 1, 1,
		Lines{Most: 1 << 20, First: []byte(`{"hello": 1}` + "\n")})
	_, err := ask(t.Context(), m, "exit", "")()
	if want := `it said: the first line: {"hello": 1} I go`; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	gone := NewMux(Program{Command: []string{filepath.Join(t.TempDir(), "gone")}}, 1, 1, Lines{Most: 1})
	if err := gone.Ask(t.Context(), Question{Do: "echo", Body: struct{}{}}, nil); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if err := gone.Close(); err != nil || len(gone.slots) > 0 {
		t.Error(err)
	}
}

// Many ask at once while copies end.
func TestMuxUnderLoad(t *testing.T) {
	m := newMux(t, 3, 4)
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			do := "echo"
			if i%20 == 0 {
				do = "exit"
			}
			text, err := ask(t.Context(), m, do, fmt.Sprint(i))()
			if err == nil && text != fmt.Sprint(i) || err != nil && !errors.Is(err, ErrEnded) {
				t.Errorf("%d: %s, %v", i, text, err)
			}
		})
	}
	all.Wait()
	inFlight(t, m, 0)
}

// The time for an answer begins once the program has loaded what the question is about.
func TestMuxGivesTimeForLoading(t *testing.T) {
	m := newMux(t, 1, 4)
	told, order := 0, []string{}
	q := Question{
		Do: "load", Body: textOf{}, About: "x", Limit: 10 * time.Millisecond, Loading: time.Hour,
		Late: func(isLoaded bool) string {
			order = append(order, "late")
			return fmt.Sprint("late, loaded ", isLoaded)
		},
		Waits: func() { told++ },
		Unhurried: func(ctx context.Context, until func(context.Context) error) error {
			err := until(ctx)
			order = append(order, fmt.Sprint("loaded ", err))
			return err
		},
	}
	for range 2 {
		err := m.Ask(t.Context(), q, &textOf{})
		if !errors.Is(err, context.DeadlineExceeded) || err.Error() != "late, loaded true" {
			t.Error(err)
		}
		inFlight(t, m, 0)
	}
	if got := strings.Join(order, ", "); got != "loaded <nil>, late, late" { // the second question finds it loaded
		t.Errorf("in this order: %s", got)
	}
	q.Do, q.About, q.Loading = "wait", "y", 10*time.Millisecond
	if err := m.Ask(t.Context(), q, &textOf{}); err == nil || err.Error() != "late, loaded false" {
		t.Error(err)
	}
	m.tell(q)
	m.tell(q)
	if told != 1 {
		t.Errorf("told %d times", told)
	}
	inFlight(t, m, 0)
}

// A question that wants to be alone waits for the others, and they for it.
func TestMuxAsksAlone(t *testing.T) {
	m := newMux(t, 1, 4)
	waits := []func() (string, error){ask(t.Context(), m, "wait", ""), ask(t.Context(), m, "wait", "")}
	inFlight(t, m, 2)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Millisecond, errors.New("enough"))
	defer cancel()
	alone := Question{Do: "echo", Body: textOf{"alone"}, Alone: true}
	if err := m.Ask(ctx, alone, &textOf{}); err == nil || !strings.Contains(err.Error(), "enough") {
		t.Error(err)
	}
	inFlight(t, m, 2)
	sees(t, m)
	for _, wait := range waits {
		if text, err := wait(); text != "waited" || err != nil {
			t.Error(text, err)
		}
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			var answer textOf
			if err := m.Ask(t.Context(), alone, &answer); err != nil || answer.Text != "alone" {
				t.Error(answer, err)
			}
		})
	}
	all.Wait()
	inFlight(t, m, 0)
}
