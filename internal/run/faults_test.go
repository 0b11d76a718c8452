package run_test

import (
	"fmt"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/failpoint"
	"github.com/trinity-go/trinity/trinitytest"
)

// recovering lists the packages whose changes call for more kills and faults than usual.
var recovering = []string{"internal/run", "internal/trainer", "internal/explorer", "buffer", "weights",
	"internal/serve/fleet", "internal/experience",
	"internal/durable", "internal/database"}

// every returns n for a test that looks at one of n cases: changed if a package that recovers has
// changed, else usual or, with -short, short. TRINITY_HEAVY looks at every case.
func every(short, usual, changed int) int {
	switch trinitytest.EffortFor(recovering...) {
	case trinitytest.Short:
		return short
	case trinitytest.Usual:
		return usual
	case trinitytest.Changed:
		return changed
	}
	return 1
}

// The disk fails at every failpoint in turn. The run ends with one line that says what to do. With
// a good disk it resumes and ends with the same bytes.
func TestTheDiskFailsAtEveryFailpoint(t *testing.T) {
	t.Parallel()
	s := newKilling(t, scenarios[0], 100)
	faults := []struct{ action, says, do string }{
		{"enospc", "no space left on device", "make room and start the same command again"},
		{"erofs", "read-only file system", "let this user write there"},
		{"eio", "input/output error", "the disk is broken or disconnected"},
		{"eacces", "permission denied", "let this user write there"},
	}
	for i, name := range failpoint.Names() {
		n, fault := s.hits[name], faults[i%len(faults)]
		if n == 0 || name == "durable.log.roll" || i%every(12, 12, 3) > 0 {
			continue
		}
		rule := fmt.Sprintf("%s=%s@%d", name, fault.action, 1+s.rng.Int64N((n+1)/2))
		c := s.p.start(t, []string{failpoint.Variable + "=" + rule + ";" + rolling}, s.settings(s.p)...)
		err := <-c.done
		if err == nil { // there was too little left to do
			s.done(t)
			continue
		}
		c.done <- err
		c.fails(t, "failpoint "+name, fault.says, fault.do)
	}
	s.finish(t)
}

// The test damages or removes each file of a run's directory before the run resumes. The run ends
// with the same bytes, or with one line that names the file, and removes nothing.
func TestARunSurvivesOrReportsDamage(t *testing.T) {
	t.Parallel()
	s := newKilling(t, scenarios[1], 101)
	if !s.killed(t, "trainer.save=kill@5") {
		t.Fatal("the run was not killed")
	}
	broken := project{dir: t.TempDir()}
	var rng *rand.Rand // of a file and a damage: other files do not change which there are
	damages := []struct {
		name string
		do   func(path string, data []byte) error
	}{
		{"gone", func(path string, _ []byte) error { return os.Remove(path) }},
		{"emptied", func(path string, _ []byte) error { return os.Truncate(path, 0) }},
		{"cut", func(path string, data []byte) error { return os.Truncate(path, rng.Int64N(int64(len(data)))) }},
		{"flipped", func(path string, data []byte) error {
			data[rng.IntN(len(data))] ^= 1 << rng.IntN(8)
			return os.WriteFile(path, data, 0o644)
		}},
	}
	whole := newest(t, s.whole.dir)
	went, refused := 0, 0
	files := s.p.files(t)
	for _, name := range files {
		hash := fnv.New64a()
		hash.Write([]byte(name))
		for j, damage := range damages {
			if (hash.Sum64()+uint64(j))%uint64(every(12, 12, 4)) > 0 {
				continue
			}
			rng = rand.New(rand.NewPCG(hash.Sum64(), uint64(j)))
			if err := os.RemoveAll(broken.dir); err != nil {
				t.Fatal(err)
			}
			broken = s.p.copyAll(t)
			path := filepath.Join(broken.job(), name)
			data := []byte(read(t, path))
			if len(data) == 0 && damage.name != "gone" {
				continue
			}
			if err := damage.do(path, data); err != nil {
				t.Fatal(err)
			}
			before := broken.files(t)
			c := broken.start(t, nil, s.settings(broken)...)
			if err := <-c.done; err == nil {
				went++
				sameCheckpoint(t, name+" "+damage.name, newest(t, broken.dir), whole)
				continue
			}
			refused++
			if out := c.output.String(); strings.Count(out, "\n") != 1 ||
				!strings.Contains(out, path) && !strings.Contains(out, filepath.Dir(path)) {
				t.Errorf("%s %s: the run ended with\n%s\nwant one line that names the file", name, damage.name, out)
			}
			if strings.HasPrefix(c.output.String(), "explorer step") { // until then the trainer has gone on, and removed old checkpoints
				continue
			}
			after := strings.Join(broken.files(t), "\n")
			for _, file := range before {
				if !strings.Contains(after, file) && !strings.Contains(file, ".writing_") {
					t.Errorf("%s %s: %s was removed", name, damage.name, file)
				}
			}
		}
	}
	t.Logf("of %d files: %d times the run went on, %d times it was refused", len(files), went, refused)
}

func sameCheckpoint(t *testing.T, what string, got, want result) {
	t.Helper()
	for _, name := range keys(got.files, want.files) {
		if got.files[name] != want.files[name] {
			t.Errorf("%s: %s differs from that of a run of which nothing was damaged", what, name)
		}
	}
}

// files lists the files of the run's directory.
func (p project) files(t *testing.T) (names []string) {
	t.Helper()
	err := filepath.WalkDir(p.job(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(p.job(), path)
		names = append(names, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// copyAll copies a project with its run.
func (p project) copyAll(t *testing.T) project {
	t.Helper()
	q := p.copyOf(t)
	if err := os.CopyFS(filepath.Join(q.dir, "checkpoints"), os.DirFS(filepath.Join(p.dir, "checkpoints"))); err != nil {
		t.Fatal(err)
	}
	return q
}

// If files of a checkpoint are missing, the run resumes from the checkpoint before it and loses
// nothing.
func TestARunResumesBeforeAPartialCheckpoint(t *testing.T) {
	for _, missing := range []string{"SHA256SUMS", "run.json", "engine/state.safetensors", "engine"} {
		t.Run(missing, func(t *testing.T) {
			t.Parallel()
			s := newKilling(t, scenarios[0], 102)
			if !s.killed(t, "trainer.save=kill@5") {
				t.Fatal("the run was not killed")
			}
			if err := os.RemoveAll(filepath.Join(s.p.job(), "global_step_4", missing)); err != nil {
				t.Fatal(err)
			}
			s.finish(t)
		})
	}
}

// If there is no checkpoint before it, a partial checkpoint is an error, and the run does not begin
// anew.
func TestAPartialCheckpointAloneIsAnError(t *testing.T) {
	p := newProject(t, tiny, rl)
	if _, err := p.run(t, "trainer.total_steps=2"); err != nil {
		t.Fatal(err)
	}
	sums := filepath.Join(p.job(), "global_step_2", "SHA256SUMS")
	if err := os.Remove(sums); err != nil {
		t.Fatal(err)
	}
	_, err := p.run(t)
	oneLine(t, err, "step 2 is not whole", sums+" is missing", "give the run another name")
}

// The next stage checks the model of a finished stage before it starts from it.
func TestADamagedModelStopsTheNextStage(t *testing.T) {
	p := newProject(t, tiny, fewSteps)
	if !p.start(t, []string{failpoint.Variable + "=trainer.take=kill@5"}).killedWithin(t, 0) {
		t.Fatal("the run was not killed")
	}
	path := filepath.Join(p.job(), "warmup", "global_step_4", "actor", "huggingface", "model.safetensors")
	text := []byte(read(t, path))
	text[len(text)/2] ^= 1
	write(t, path, string(text))
	_, err := p.run(t)
	oneLine(t, err, "stage warmup is finished, but "+path+" is damaged")
}
