package tinker

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/trinity-go/trinity/internal/wire/tinker"
)

// lists answers what there is: what lives, and what checkpoints tell of.
type lists struct {
	store *store
	live  func(owner string) living
	move  func(owner, session, project string) (found bool, err error) // puts a session that lives under a project
}

// living is what an owner has in memory. The slices are the caller's.
type living struct {
	runs     []*tinker.TrainingRun
	sessions []*tinker.SessionSummary
	samplers []string
}

// live returns what an owner has in memory.
func (s *Server) live(owner string) (all living) {
	for _, m := range modelsOf(s) {
		if m.session.owner == owner {
			all.runs = append(all.runs, newRun(m.id, owner, &m.recipe, m.lastRequest(), m.about))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, x := range s.sessions {
		if x.owner == owner {
			all.sessions = append(all.sessions, &tinker.SessionSummary{
				ID: id, Created: x.made.UTC(), Owner: owner, ProjectID: x.project, Status: &tinker.SessionStatus{Type: "active"},
				DisplayName: x.name, UserMetadata: x.metadata,
			})
		}
	}
	for name, sampler := range s.samplers {
		if sampler.owner == owner {
			all.samplers = append(all.samplers, name)
		}
	}
	return all
}

// project puts a session that lives under a project.
func (s *Server) project(owner, id, project string) (found bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.sessions[id]
	if x == nil || x.owner != owner {
		return false, nil
	}
	x.project = project
	return true, s.all.store.keepSession(x)
}

func newRun(id, owner string, made *recipe, at time.Time, metadata map[string]string) *tinker.TrainingRun {
	return &tinker.TrainingRun{
		ID: id, BaseModel: made.BaseModel, Owner: owner, IsLoRA: true, LoRARank: made.Rank, LastRequest: at, UserMetadata: metadata,
	}
}

// lastRequest returns when something of the model ran last.
func (m *model) lastRequest() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.idle.After(m.made) {
		return m.idle.UTC()
	}
	return m.made.UTC()
}

// runs returns the runs that an owner has or, if accessible, of which it may read a checkpoint: the latest request first.
func (x *lists) runs(owner string, accessible bool) []*tinker.TrainingRun {
	all := x.live(owner).runs
	known := map[string]*tinker.TrainingRun{}
	for _, run := range all {
		known[run.ID] = run
	}
	for _, c := range x.store.named(owner, accessible) { // the newest first
		run := known[c.path.Run]
		if run == nil {
			run = newRun(c.path.Run, c.Owner, &c.recipe, c.Time, c.Run)
			known[run.ID], all = run, append(all, run)
		}
		into := &run.LastCheckpoint
		if c.path.Kind != tinker.Weights {
			into = &run.LastSamplerCheckpoint
		}
		if *into == nil {
			listed := c.listed()
			*into = &listed
		}
	}
	slices.SortFunc(all, func(a, b *tinker.TrainingRun) int {
		return cmp.Or(b.LastRequest.Compare(a.LastRequest), strings.Compare(a.ID, b.ID))
	})
	return all
}

func (x *lists) runPage(r *http.Request, owner string, _ []byte) (any, error) {
	all := x.runs(owner, isAccessible(r))
	if project := r.URL.Query().Get("project_id"); project != "" {
		inside := map[string]bool{}
		for _, of := range x.sessions(owner, isAccessible(r)) {
			inside[of.ID] = of.ProjectID == project
		}
		all = slices.DeleteFunc(all, func(run *tinker.TrainingRun) bool { return !inside[sessionOf(run.ID)] })
	}
	part, cursor, err := page(r, 20, all)
	return map[string]any{"training_runs": part, "cursor": cursor}, err
}

func (x *lists) oneRun(r *http.Request, owner string, _ []byte) (any, error) {
	id := r.PathValue("run")
	for _, run := range x.runs(owner, isAccessible(r)) {
		if run.ID == id {
			return run, nil
		}
	}
	return nil, missing("there is no training run %.200q: it has no checkpoint, and its session has ended", id)
}

func (x *lists) checkpointsOfRun(r *http.Request, owner string, _ []byte) (any, error) {
	if _, err := x.oneRun(r, owner, nil); err != nil {
		return nil, err
	}
	all := []tinker.Checkpoint{}
	for _, c := range x.store.named(owner, false) {
		if c.path.Run == r.PathValue("run") {
			all = append(all, c.listed())
		}
	}
	return map[string]any{"checkpoints": all}, nil
}
