package run_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/run"
	"github.com/trinity-go/trinity/internal/run/settle"
)

const queueOf = "buffer.explorer_input.taskset."

// fromQueue makes rl take its tasks from a queue, which ends long before total_steps.
var fromQueue = []string{queueOf + "storage_type=queue", queueOf + "path=${model.model_path}/../queue.jsonl",
	queueOf + "data_selector.selector_type=sequential", "buffer.total_steps=20", "trainer.total_steps=20"}

// queueRows are the tasks of a queue: seven steps of three tasks, and one of two.
const queueRows = 23

// queue returns the file of the queue, and its text with all rows and its end.
func (p project) queue(t *testing.T) (file, text string) {
	t.Helper()
	rows := strings.SplitAfter(read(t, filepath.Join(p.dir, "train.jsonl")), "\n")[:queueRows]
	return filepath.Join(p.dir, "queue.jsonl"), strings.Join(rows, "") + "null\n"
}

// appendTo appends text to a file.
func appendTo(t *testing.T, path, text string) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err == nil {
		defer f.Close()
		_, err = f.WriteString(text)
	}
	if err != nil {
		t.Error(err)
	}
}

// arrive writes a text to a file in pieces, which cut rows, with pauses between them.
func arrive(t *testing.T, path, text string, longest time.Duration) {
	rng := rand.New(rand.NewPCG(uint64(len(text)), 1))
	for text != "" {
		n := min(len(text), 1+rng.IntN(60))
		appendTo(t, path, text[:n])
		text = text[n:]
		time.Sleep(time.Duration(rng.Int64N(int64(longest))))
	}
}

// onlyRows checks that the trainer took the rollouts of each task of the queue once.
func onlyRows(t *testing.T, p project) {
	t.Helper()
	seen := map[trinity.ExperienceID]bool{}
	tasks := map[string]int{}
	for _, e := range p.delivered(t, trinity.SourceState{}) {
		if seen[e.ID] {
			t.Errorf("%s was delivered twice", e.ID)
		}
		seen[e.ID] = true
		_, task, _ := strings.Cut(e.ID.Task, "digits/") // after the name of one of several explorers
		tasks[task]++
	}
	for i := range queueRows {
		if n := tasks[fmt.Sprint(i)]; n != 4 {
			t.Errorf("task %d has %d rollouts, want 4", i, n)
		}
	}
	if len(seen) != 4*queueRows {
		t.Errorf("%d rollouts, want %d", len(seen), 4*queueRows)
	}
}

// A run takes tasks from a file that does not exist yet, and ends with them: after a smaller step,
// with a checkpoint. Explorer and trainer in two processes end with the same bytes, and an explorer
// without a trainer has the same tasks.
func TestTasksFromAQueue(t *testing.T) {
	one := newProject(t, tiny, rl)
	file, text := one.queue(t)
	two, alone := one.copyOf(t), one.copyOf(t)
	var said strings.Builder
	go arrive(t, file, text, 20*time.Millisecond)
	options := run.Options{Say: func(line string) { said.WriteString(line + "\n") }}
	sum, err := run.Run(t.Context(), t.Context(), one.load(t, fromQueue...), options)
	if err != nil {
		t.Fatal(err)
	}
	if got := sum.Stages[0].Steps; got != 8 {
		t.Errorf("%d steps, want 8", got)
	}
	const want = "the queue of taskset digits has ended after 23 rows, so explore step 8 was the last one"
	if !strings.Contains(said.String(), want) {
		t.Errorf("said %q, want %q", &said, want)
	}
	onlyRows(t, one)

	file, _ = two.queue(t)
	explorer := two.start(t, nil, append(fields(exploring), fromQueue...)...)
	trainer := two.start(t, nil, append([]string{"mode=train", "buffer.train_batch_size=12"}, fromQueue...)...)
	arrive(t, file, text, 20*time.Millisecond)
	explorer.finish(t)
	trainer.finish(t)
	results(t, two.dir).sameAs(t, results(t, one.dir))

	file, _ = alone.queue(t)
	go arrive(t, file, text, 20*time.Millisecond)
	if _, err := alone.run(t, append(slices.Clone(fromQueue), "mode=explore", "explorer.eval_interval=100",
		"buffer.trainer_input.experience_buffer={storage_type: file, path: '${model.model_path}/../kept.jsonl'}")...); err != nil {
		t.Fatal(err)
	}
	dirs, _ := filepath.Glob(filepath.Join(alone.dir, "kept.jsonl", "*"))
	if n := strings.Count(readSteps(t, dirs[0]), `"task":"digits/22"`); len(dirs) != 1 || n != 4 {
		t.Errorf("the archive has %d rollouts of the last task, want 4", n)
	}
}

// Two explorers share a queue: each takes every second task, and both end with the queue.
func TestTwoExplorersShareAQueue(t *testing.T) {
	p := newProject(t, tiny, rl)
	file, text := p.queue(t)
	overrides := append(slices.Clone(fromQueue), "explorer.eval_interval=100")
	left := p.start(t, nil, append(half("left", "1/2"), overrides...)...)
	right := p.start(t, nil, append(half("right", "2/2"), overrides...)...)
	trainer := p.start(t, nil, append([]string{"mode=train", "buffer.train_batch_size=24"}, overrides...)...)
	arrive(t, file, text, 20*time.Millisecond)
	left.finish(t)
	right.finish(t)
	trainer.finish(t)
	onlyRows(t, p)
}

// Kills while tasks arrive, also in the middle of a row, lose no task and take none twice: the run
// ends with the bytes of a run that had all tasks from the beginning.
func TestKilledWhileTasksArrive(t *testing.T) {
	s := newKilling(t, scenario{"a queue of tasks", fromQueue, (*killing).sameAsWhole}, 20)
	file, text := s.p.queue(t)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	for _, n := range s.hits {
		total += n
	}
	go arrive(t, file, text, 60*time.Millisecond)
	for i := range every(2, 5, 5) {
		how := ""
		if i%2 == 0 {
			how = fmt.Sprintf("*=kill@%d", 1+s.rng.Int64N(total/4))
		}
		s.once(t, how)
	}
	s.finish(t)
	t.Logf("%d kills in %d runs", s.kills, s.runs)
	if s.kills == 0 {
		t.Error("no run was killed")
	}
}

// A run to which no task comes, or a bad one, ends with one line. Its steps until then are in a
// checkpoint, from which it resumes.
func TestAQueueThatFails(t *testing.T) {
	p := newProject(t, tiny, rl)
	file, text := p.queue(t)
	lines := strings.SplitAfter(text, "\n")
	overrides := append(slices.Clone(fromQueue), queueOf+"max_read_timeout=0.3", "trainer.save_interval=0", "explorer.eval_interval=100")
	_, err := p.run(t, overrides...)
	oneLine(t, err, "explorer step 1: queue of tasks ", "queue.jsonl: no row came within 0.3s (max_read_timeout)",
		"it has 0 rows, and the step wants row 3: append rows and resume")

	appendTo(t, file, strings.Join(lines[:7], "")) // two steps, and a task of the third
	_, err = p.run(t, overrides...)
	oneLine(t, err, "explorer step 3", "it has 7 rows, and the step wants row 9")
	if !exists(filepath.Join(p.job(), "global_step_2")) {
		t.Error("the two steps are not saved")
	}

	for bad, want := range map[string]string{"{\"question\": }\n": "queue.jsonl:8: not JSON", "{\"answer\": \"3\"}\n": "queue.jsonl:8: "} {
		before := read(t, file)
		appendTo(t, file, bad)
		if _, err = p.run(t, overrides...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", bad, err, want)
		}
		if _, err := settle.Facts(p.load(t, overrides...).Settled()[0]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: check says %v", bad, err)
		}
		write(t, file, before)
	}

	write(t, file, strings.Join(lines[:6], "")+strings.Join(lines[7:8], "")) // a task that was not taken may change
	appendTo(t, file, lines[6]+strings.Join(lines[8:], ""))
	if _, err := p.run(t, overrides...); err != nil {
		t.Fatal(err)
	}
	onlyRows(t, p)

	write(t, file, strings.Replace(text, "max", "min", 1))
	_, err = p.run(t, overrides...)
	oneLine(t, err, "queue.jsonl: its first 23 rows are no longer those that the run has taken")
}

// A bad task ends a run that waits for tasks. The steps until then are saved.
func TestABadTaskArrives(t *testing.T) {
	p := newProject(t, tiny, rl)
	file, text := p.queue(t)
	lines := strings.SplitAfter(text, "\n")
	appendTo(t, file, strings.Join(lines[:3], ""))
	bad := p.appears("buffer/experience_buffer/*")
	done := make(chan error, 1)
	go func() {
		_, err := p.run(t, append(slices.Clone(fromQueue), "explorer.eval_interval=100")...)
		done <- err
	}()
	for !bad() && len(done) == 0 {
		time.Sleep(time.Millisecond)
	}
	appendTo(t, file, lines[3]+"{\"answer\": \"3\"}\n")
	oneLine(t, <-done, "queue.jsonl:5: ")
}

// A trainer that has all its steps ends the run, although the explorer waits for tasks.
func TestATrainerEndsBeforeItsQueue(t *testing.T) {
	one := newProject(t, tiny, rl)
	file, text := one.queue(t)
	lines := strings.SplitAfter(text, "\n")
	write(t, file, strings.Join(lines[:7], ""))
	two := one.copyOf(t)
	overrides := append(slices.Clone(fromQueue), "explorer.eval_interval=100", "synchronizer.sync_interval=4")
	overrides[slices.Index(overrides, "trainer.total_steps=20")] = "trainer.total_steps=2"
	if _, err := one.run(t, overrides...); err != nil {
		t.Fatal(err)
	}
	explorer := two.start(t, nil, append(fields(exploring), overrides...)...)
	two.start(t, nil, append([]string{"mode=train", "buffer.train_batch_size=12"}, overrides...)...).finish(t)
	explorer.finish(t)
}
