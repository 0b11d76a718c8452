package weights_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/trinitytest"
	"github.com/trinity-go/trinity/weights"
)

// A run that resumes between two versions samples with the published version of its checkpoint, not
// with the trained weights.
func TestDirectoryResumes(t *testing.T) {
	for name, current := range map[string]bool{"at a version": true, "between two versions": false} {
		trained, sampled := trinitytest.NewBandit(4), trinitytest.NewBandit(4)
		trained.Weights[2] = 9
		if err := trained.Offer(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		if !current {
			trained.Weights[2], trained.Weights[1] = 0, 9
		}
		way, err := weights.Ways.Build("directory")
		if err != nil {
			t.Fatal(err)
		}
		link := weights.Link{Engine: trained, Sampler: sampled, Version: 3, Current: current, Timeout: time.Minute, Dir: t.TempDir()}
		sync, err := way.Open(t.Context(), link)
		if err != nil {
			t.Fatal(err)
		}
		out, err := sampled.Sample(t.Context(), trinity.Prompt{}, trinity.SamplingParams{Seed: 1})
		if err != nil || out[0].Tokens[0] != 2 || out[0].Versions != [2]int64{3, 3} {
			t.Errorf("%s: sampled %+v, %v; want token 2 of version 3", name, out, err)
		}
		if v, err := sync.Wait(t.Context(), 3, false); v != 3 || err != nil {
			t.Errorf("%s: version %d is in use, %v", name, v, err)
		}
	}
}

// A Way refuses engines that do not fit it, before the first step.
func TestWaysRefuseEngines(t *testing.T) {
	plain := struct{ engine.Trainer }{trinitytest.NewBandit(4)}
	deaf := struct{ trinity.Sampler }{trinitytest.NewBandit(4)}
	for _, c := range []struct {
		way, want string
		link      weights.Link
	}{
		{"memory", "cannot hand weights", weights.Link{Engine: plain, Sampler: deaf}},
		{"directory", "cannot load weights", weights.Link{Engine: plain, Sampler: deaf}},
		{"directory", "keeps no published weights", weights.Link{Engine: plain, Sampler: trinitytest.NewBandit(4), Version: 3, Dir: t.TempDir()}},
	} {
		way, err := weights.Ways.Build(c.way)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := way.Open(t.Context(), c.link); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error is %v, want one with %q", c.way, err, c.want)
		}
	}
}

// resident is a sampler in a server, whose weights outlive the run.
type resident struct {
	*trinitytest.Bandit
	loads []int64
	dirs  []string
}

func (*resident) Resident() {}

func (r *resident) LoadWeights(ctx context.Context, dir string, version int64) error {
	r.loads, r.dirs = append(r.loads, version), append(r.dirs, dir)
	return r.Bandit.LoadWeights(ctx, dir, version)
}

// A server may have the weights of an earlier run, so it gets version 0 as well.
func TestDirectoryBeginsWithItsOwnWeights(t *testing.T) {
	trained, sampled := trinitytest.NewBandit(4), &resident{Bandit: trinitytest.NewBandit(4)}
	way, err := weights.Ways.Build("directory")
	if err != nil {
		t.Fatal(err)
	}
	_, err = way.Open(t.Context(), weights.Link{Engine: trained, Sampler: sampled, Current: true, Timeout: time.Minute, Dir: t.TempDir()})
	if err != nil || !slices.Equal(sampled.loads, []int64{0}) {
		t.Errorf("loaded versions %v, %v, want 0", sampled.loads, err)
	}
}

// A server that restarts reads its version again, so the directory stays until the next one is loaded, but
// not after the run. Of versions that nobody has loaded the newest stays.
func TestDirectoriesOfServersStay(t *testing.T) {
	trained, sampled := trinitytest.NewBandit(4), &resident{Bandit: trinitytest.NewBandit(4)}
	way, err := weights.Ways.Build("directory")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	sync, err := way.Open(t.Context(), weights.Link{
		Engine: trained, Sampler: sampled, Current: true, Timeout: time.Minute, Dir: dir, Handover: weights.WhenAsked,
	})
	if err != nil {
		t.Fatal(err)
	}
	left := func(want ...string) {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(dir, "weights", "*"))
		for i := range found {
			found[i] = filepath.Base(found[i])
		}
		if err != nil || !slices.Equal(found, want) {
			t.Errorf("left are %v, %v; want %v", found, err, want)
		}
	}
	left("0")
	for version := range int64(3) {
		if err := sync.Publish(t.Context(), version+1); err != nil {
			t.Fatal(err)
		}
	}
	left("0", "3")
	if _, err := sync.Wait(t.Context(), 1, true); err != nil || filepath.Base(sampled.dirs[1]) != "3" {
		t.Errorf("loaded %v, %v", sampled.dirs, err)
	}
	left("3")
	sync.TrainerDone()
	left("3")
	sync.ExplorerDone()
	left()
}
