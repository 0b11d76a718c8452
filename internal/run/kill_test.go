package run_test

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience/ledger"
	"github.com/trinity-go/trinity/internal/failpoint"
)

// rolling makes every delivery begin a segment of the log, so that the run creates and removes
// segments all the time.
const rolling = "durable.log.roll=force"

// elsewhere reports whether the processes of these scenarios never reach a failpoint: tests of
// the packages durable and serve/tinker, TestKilledApart, TestExplorerElsewhereSendsImages or
// TestTrafficIsTrainedOnceWhateverIsKilled do.
func elsewhere(name string) bool {
	return name == "durable.dir.replace" || strings.HasPrefix(name, "remote.") || strings.HasPrefix(name, "traffic.") ||
		strings.HasPrefix(name, "served.") || strings.HasPrefix(name, "images.") || strings.HasPrefix(name, "tinker.")
}

// rare lists failpoints that few scenarios reach.
var rare = []string{"run.stage", "database.commit", "database.committed"}

// scenario is a run that is killed again and again.
type scenario struct {
	name      string
	overrides []string // of rl with audit
	check     func(*killing, *testing.T)
}

var scenarios = []scenario{
	{"synchronous", nil, (*killing).sameAsWhole},
	{"one step off", []string{"synchronizer.sync_offset=1"}, (*killing).sameAsWhole},
	{"interval 3 with stale rollouts", []string{"synchronizer.sync_interval=3", "algorithm.sample_strategy_args.max_staleness=2"},
		(*killing).sameAsWhole},
	{"replay", append(replay("reuse_cooldown_time: 0, priority_fn: decay_limit_randomization, priority_fn_args: {decay: 0.2, sigma: 2}"),
		"synchronizer.sync_offset=1"), (*killing).sameAsWhole},
	{"fully asynchronous", []string{"synchronizer.sync_style=fully_async"}, (*killing).eachOnce},
	{"four steps in flight", []string{"synchronizer.sync_style=fully_async", "explorer.max_inflight_batches=4"}, (*killing).eachOnce},
	{"explorer driven with staleness control", []string{"synchronizer.sync_style=explorer_driven", "synchronizer.explorer_sync_interval=2",
		"algorithm.sample_strategy_args.max_staleness=3"}, (*killing).eachOnce},
	{"trainer driven", []string{"synchronizer.sync_style=trainer_driven", "synchronizer.sync_interval=2"}, (*killing).eachOnce},
	{"asynchronous replay", append(replay("reuse_cooldown_time: 0, priority_fn: decay_limit_randomization"),
		"synchronizer.sync_style=fully_async"), (*killing).eachAtMostThrice},
	{"SQLite", []string{"buffer.trainer_input.experience_buffer.storage_type=sql", "synchronizer.sync_offset=1",
		"data_processor.experience_pipeline.output_save_path=sqlite:///${checkpoint_root_dir}/kept.db"}, (*killing).sameAsWhole},
	{"SQLite fully asynchronous", []string{"buffer.trainer_input.experience_buffer.storage_type=sql",
		"synchronizer.sync_style=fully_async"}, (*killing).eachOnce},
	{"the best is kept", append(strings.Fields(keepsBest), "trainer.max_checkpoints_to_keep=1"), (*killing).keepsAsWhole},
	{"stages", nil, (*killing).endsAsWhole},
	{"stages that learn", nil, (*killing).endsAsWhole},
	{"stages that explore", nil, (*killing).endsAsWhole},
	{"an input", []string{inputs + "={old: {path: '${model.model_path}/../kept.jsonl', batch_size: 2, data_selector: {selector_type: " +
		"shuffle}}}", "synchronizer.sync_offset=1"}, (*killing).sameAsWhole},
}

// stagesOf are the configurations of scenarios with stages.
var stagesOf = map[string]string{"stages": fewSteps, "stages that learn": learningStages, "stages that explore": exploringStages}

// The test kills every scenario at every failpoint, at random failpoints and at random times. The
// trainer trains once on every experience that the buffer acknowledged. With sync_style fixed, the
// run ends with the same bytes as a run without a kill.
func TestKilledAtEveryFailpoint(t *testing.T) {
	var struck sync.Map
	var ended atomic.Int64
	t.Cleanup(func() {
		if testing.Short() || ended.Load() < int64(len(scenarios)) {
			return
		}
		for _, name := range failpoint.Names() {
			if _, ok := struck.Load(name); !ok && !elsewhere(name) {
				t.Errorf("no run was killed at failpoint %s", name)
			}
		}
	})
	for i, c := range scenarios {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newKilling(t, c, i)
			for _, how := range s.plan(t) {
				s.once(t, how)
				name, _, _ := strings.Cut(how, "=")
				struck.Store(name, true)
			}
			s.finish(t)
			ended.Add(1)
			t.Logf("%d kills in %d runs", s.kills, s.runs)
		})
	}
}

// killing is a run that is killed.
type killing struct {
	scenario
	number   int
	whole, p project
	rng      *rand.Rand
	hits     map[string]int64                       // of each failpoint, in the run without a kill
	took     time.Duration                          // by the run without a kill
	acked    map[string]bool                        // keys that the buffer acknowledged in the current run
	remains  func(*testing.T) []*trinity.Experience // returns what the buffer acknowledged and has not trimmed
	kills    int
	runs     int
}

// newKilling runs the scenario once without a kill.
func newKilling(t *testing.T, c scenario, number int) *killing {
	t.Helper()
	yaml := cmp.Or(stagesOf[c.name], rl)
	if c.name == "four steps in flight" {
		yaml = blended
	}
	s := &killing{scenario: c, number: number, whole: newProject(t, tiny, yaml), rng: rand.New(rand.NewPCG(uint64(number), 5)),
		acked: map[string]bool{}}
	recording(t, filepath.Join(s.whole.dir, "kept.jsonl"))
	tasks, all := s.whole.queue(t)
	write(t, tasks, all)
	s.p = s.whole.copyOf(t)
	s.remains = s.p.remaining
	counts := filepath.Join(t.TempDir(), "hits.json")
	begin := time.Now()
	s.whole.start(t, []string{childHits + "=" + counts, failpoint.Variable + "=" + rolling}, s.settings(s.whole)...).finish(t)
	s.took = time.Since(begin)
	if err := json.Unmarshal([]byte(read(t, counts)), &s.hits); err != nil {
		t.Fatal(err)
	}
	return s
}

// settings returns the overrides of the scenario for a project.
func (s *killing) settings(p project) []string {
	if stagesOf[s.name] != "" {
		return nil
	}
	return append([]string{
		"trainer.save_interval=1", "trainer.max_checkpoints_to_keep=2", "monitor.monitor_type=[jsonl, " +
			"tensorboard]", "data_processor.experience_pipeline.save_input=true",
		"algorithm.sample_strategy=test_audit", "algorithm.sample_strategy_args.file=" + p.auditFile(),
	}, s.scenario.overrides...)
}

// plan returns the kills of the scenario: rules for failpoints, and "" for a kill at a random time.
// Each scenario takes a share of the failpoints, or all with TRINITY_HEAVY.
func (s *killing) plan(t *testing.T) (all []string) {
	t.Helper()
	share := every(9, 9, 3)
	total := int64(0)
	for i, name := range failpoint.Names() {
		n := s.hits[name]
		total += n
		if n > 0 && ((i+s.number)%share == 0 || slices.Contains(rare, name)) {
			all = append(all, fmt.Sprintf("%s=kill@%d", name, 1+s.rng.Int64N((n+1)/2)))
		}
	}
	for range 4 / share {
		all = append(all, fmt.Sprintf("*=kill@%d", 1+s.rng.Int64N((total+1)/2)), "")
	}
	s.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if testing.Short() {
		return all[:2]
	}
	var inTurn []string // one kill within each stage, and one at its end
	for range strings.Count(stagesOf[s.name], "stage_name:") {
		inTurn = append(inTurn, fmt.Sprintf("*=kill@%d", 2+s.rng.Int64N(20)), "run.stage=kill")
	}
	return append(inTurn, all...)
}

// once starts or resumes the run and kills it. If the run ends before the kill, once checks it and
// kills a new run early.
func (s *killing) once(t *testing.T, how string) {
	t.Helper()
	if s.killed(t, how) {
		return
	}
	s.done(t)
	if name, _, ok := strings.Cut(how, "@"); ok && !s.killed(t, name) {
		t.Errorf("%s: a new run was not killed", name)
		s.done(t)
	}
}

// killed runs one process until it is killed. It returns false if the process ended by itself.
func (s *killing) killed(t *testing.T, how string) bool {
	t.Helper()
	within := time.Duration(0)
	if how == "" {
		within = time.Duration(s.rng.Float64() * float64(s.took))
	}
	c := s.p.start(t, []string{failpoint.Variable + "=" + how + ";" + rolling}, s.settings(s.p)...)
	if !c.killedWithin(t, within) {
		return false
	}
	s.kills++
	for _, key := range s.acknowledged(t) {
		s.acked[key] = true
	}
	return true
}

// acknowledged returns the keys of the experiences that the buffer acknowledged and still holds.
func (s *killing) acknowledged(t *testing.T) (keys []string) {
	t.Helper()
	for _, e := range s.remains(t) {
		keys = append(keys, keyOf(e))
	}
	return keys
}

// finish runs the scenario to its end without a kill and checks it.
func (s *killing) finish(t *testing.T) {
	t.Helper()
	if s.killed(t, rolling) {
		t.Error("the last process was killed")
	}
	s.done(t)
}

// done checks the run and removes its files, so that a new run can begin.
func (s *killing) done(t *testing.T) {
	t.Helper()
	s.runs++
	s.check(s, t)
	s.accounted(t)
	if t.Failed() {
		t.FailNow()
	}
	s.acked = map[string]bool{}
	for _, path := range []string{filepath.Join(s.p.dir, "checkpoints"), s.p.auditFile()} {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
}

// accounted checks the run's own account: it has lost nothing and, without a replay buffer, has
// trained on nothing twice. Where the test wrote down what the trainer took, both agree.
func (s *killing) accounted(t *testing.T) {
	t.Helper()
	accounts, err := ledger.Read(s.p.job())
	if err != nil || len(accounts) == 0 {
		t.Fatalf("%v accounts, %v", accounts, err)
	}
	for name, a := range accounts {
		trained, uses := 0, 0
		for n, count := range a.Trained {
			trained, uses = trained+count, uses+n*count
		}
		if len(a.Lost) > 0 || !a.Replay && trained != uses {
			t.Errorf("%s has lost or repeated experiences: %+v", name, *a)
		}
		if !a.Replay && a.Put != trained+a.Waiting+a.Dropped["staleness_control"]+a.Dropped["advantage"]+a.Dropped["mask"] {
			t.Errorf("%s: not all that was put is trained on, dropped or waiting: %+v", name, *a)
		}
		if stagesOf[s.name] == "" && uses != len(slices.Concat(s.p.consumed(t)...)) {
			t.Errorf("the trainer took %d experiences, and its account has %d: %+v", len(slices.Concat(s.p.consumed(t)...)), uses, *a)
		}
	}
}

// endsAsWhole checks that checkpoint and metrics equal those of the run without a kill.
func (s *killing) endsAsWhole(t *testing.T) {
	t.Helper()
	results(t, s.p.dir).sameAs(t, results(t, s.whole.dir))
}

// sameAsWhole also checks that the trainer took the same experiences in the same order, and that
// the archives are the same.
func (s *killing) sameAsWhole(t *testing.T) {
	t.Helper()
	s.endsAsWhole(t)
	sameTraces(t, s.p, s.whole)
	for name, of := range map[string]func(project) string{
		"the batches":            func(p project) string { return fmt.Sprint(p.consumed(t)) },
		"the copy of the input":  func(p project) string { return readSteps(t, filepath.Join(p.job(), "buffer", "explorer_output.jsonl")) },
		"the copy of the output": func(p project) string { return archived(t, filepath.Join(p.dir, "checkpoints", "kept.db")) },
	} {
		if of(s.p) != of(s.whole) {
			t.Errorf("%s differ", name)
		}
	}
}

// readSteps returns the names and contents of the files of an archive.
func readSteps(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "step-*"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		all.WriteString(filepath.Base(file) + "\n" + read(t, file))
	}
	return all.String()
}

// archived returns the run's experiences in a database, in order, or "" without a database.
func archived(t *testing.T, file string) string {
	t.Helper()
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query("SELECT hex(experience) FROM trinity_archive WHERE archive LIKE 'p/r/output-________' ORDER BY step, id")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var all strings.Builder
	for rows.Next() {
		var e string
		if err := rows.Scan(&e); err != nil {
			t.Fatal(err)
		}
		all.WriteString(e + "\n")
	}
	return all.String()
}

// eachOnce checks that the trainer took every acknowledged experience and every rollout once. For a
// taskset without a curriculum it also checks that the run without a kill took the same rollouts.
func (s *killing) eachOnce(t *testing.T) {
	t.Helper()
	s.allOnce(t, 8*3*4)
	of := "digits"
	if s.name == "four steps in flight" {
		of = "few"
	}
	if got, want := tasksetOf(s.p.consumed(t), of), tasksetOf(s.whole.consumed(t), of); !slices.Equal(got, want) || len(got) == 0 {
		t.Errorf("taskset %s: trained on\n%v\nand without a kill on\n%v", of, got, want)
	}
}

// allOnce checks that the trainer took each of so many rollouts once, and all acknowledged ones.
func (s *killing) allOnce(t *testing.T, rollouts int) {
	t.Helper()
	uses := s.uses(t, 1)
	if len(uses) != rollouts {
		t.Errorf("trained on %d rollouts, want %d", len(uses), rollouts)
	}
	for key := range s.acked {
		if uses[key] == 0 {
			t.Errorf("%s was acknowledged and is lost", key)
		}
	}
}

// tasksetOf returns the names of the rollouts of a taskset.
func tasksetOf(batches [][]string, taskset string) (ids []string) {
	for _, key := range slices.Concat(batches...) {
		if id, _, _ := strings.Cut(key, " "); strings.Contains(id, "/"+taskset+"/") {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// eachAtMostThrice checks that the trainer took every acknowledged experience, or that the buffer
// still holds it.
func (s *killing) eachAtMostThrice(t *testing.T) {
	t.Helper()
	uses := s.uses(t, 3)
	waiting := s.acknowledged(t)
	for key := range s.acked {
		if uses[key] == 0 && !slices.Contains(waiting, key) {
			t.Errorf("%s was acknowledged and is lost", key)
		}
	}
}

// uses counts how often the trainer took each experience, without batches that kills have undone.
func (s *killing) uses(t *testing.T, most int) map[string]int {
	t.Helper()
	uses, keys := map[string]int{}, map[string]string{}
	for _, batch := range s.p.consumed(t) {
		for _, key := range batch {
			if uses[key]++; uses[key] == most+1 {
				t.Errorf("%s: trained on more than %d times", key, most)
			}
			id, _, _ := strings.Cut(key, " ")
			if other := keys[id]; other != "" && other != key {
				t.Errorf("%s: trained on two different rollouts", id)
			}
			keys[id] = key
		}
	}
	return uses
}
