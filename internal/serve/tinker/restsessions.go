package tinker

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/wire/tinker"
)

// sessionOf returns the id of the session of a run or a sampler.
func sessionOf(id string) string {
	session, _, _ := strings.Cut(id, ":")
	return session
}

// allSessions returns the sessions that live, and those that checkpoints tell of: the newest first.
func (s *Server) allSessions(owner string, accessible bool) []*tinker.SessionSummary {
	var all []*tinker.SessionSummary
	known := map[string]*tinker.SessionSummary{}
	s.mu.Lock()
	for id, x := range s.sessions {
		if x.owner == owner {
			known[id] = &tinker.SessionSummary{
				ID: id, Created: x.made.UTC(), Owner: owner, ProjectID: x.project, Status: &tinker.SessionStatus{Type: "active"},
				DisplayName: x.name, UserMetadata: x.metadata,
			}
			all = append(all, known[id])
		}
	}
	s.mu.Unlock()
	for _, c := range s.named(owner, accessible) {
		x := known[sessionOf(c.path.Run)]
		if x == nil {
			x = &tinker.SessionSummary{
				ID: sessionOf(c.path.Run), Created: c.Session.Made.UTC(), Owner: c.Owner, ProjectID: c.Session.Project,
				DisplayName: c.Session.Name, UserMetadata: c.Session.Metadata,
			}
			known[x.ID], all = x, append(all, x)
		}
		x.Checkpoints++
		x.Bytes += c.Bytes
	}
	slices.SortFunc(all, newestSession)
	return all
}

func newestSession(a, b *tinker.SessionSummary) int {
	return cmp.Or(b.Created.Compare(a.Created), strings.Compare(b.ID, a.ID))
}

func (s *Server) listSessions(r *http.Request, owner string, _ []byte) (any, error) {
	ids := []string{}
	for _, x := range s.allSessions(owner, isAccessible(r)) {
		ids = append(ids, x.ID)
	}
	part, _, err := page(r, 20, ids)
	return map[string]any{"sessions": part}, err
}

func (s *Server) oneSession(r *http.Request, owner string, _ []byte) (any, error) {
	id := r.PathValue("id")
	for _, x := range s.allSessions(owner, isAccessible(r)) {
		if x.ID != id {
			continue
		}
		runs, samplers := []string{}, []string{}
		for _, run := range s.runs(owner, isAccessible(r)) {
			if sessionOf(run.ID) == id {
				runs = append(runs, run.ID)
			}
		}
		s.mu.Lock()
		for name, sampler := range s.samplers {
			if sampler.owner == owner && sessionOf(name) == id {
				samplers = append(samplers, name)
			}
		}
		s.mu.Unlock()
		slices.Sort(runs)
		slices.Sort(samplers)
		reply := map[string]any{"training_run_ids": runs, "sampler_ids": samplers}
		if x.DisplayName != "" {
			reply["display_name"] = x.DisplayName
		}
		if x.UserMetadata != nil {
			reply["user_metadata"] = x.UserMetadata
		}
		return reply, nil
	}
	return nil, missing("there is no session %.100q: it has ended, and has no checkpoint", id)
}

// moveSession puts a session under a project, which is a label: its owner may choose any.
func (s *Server) moveSession(r *http.Request, owner string, body []byte) (any, error) {
	var in struct {
		Project string `json:"project_id"`
	}
	if err := read(body, &in); err != nil {
		return nil, err
	}
	if in.Project == "" {
		return nil, bad("project_id is missing")
	}
	id, found := r.PathValue("id"), false
	s.mu.Lock()
	if x := s.sessions[id]; x != nil && x.owner == owner {
		x.project, found = in.Project, true
	}
	s.mu.Unlock()
	for _, c := range s.named(owner, false) {
		if sessionOf(c.path.Run) == id {
			found = true
			if err := s.change(owner, c.path, func(f *facts) { f.Session.Project = in.Project }); err != nil {
				return nil, err
			}
		}
	}
	if !found {
		return nil, missing("there is no session %.100q", id)
	}
	return struct{}{}, nil
}

// searchSessions answers a page of the sessions that match each part of a search.
func (s *Server) searchSessions(_ *http.Request, owner string, body []byte) (any, error) {
	in := tinker.SearchSessions{Limit: 50}
	if err := read(body, &in); err != nil {
		return nil, err
	}
	if in.Limit < 1 || in.Limit > 200 {
		return nil, bad("limit is %d: want 1 to 200", in.Limit)
	}
	found := []*tinker.SessionSummary{}
	var next *tinker.SearchCursor
	for _, x := range s.allSessions(owner, in.Owner.Type == "accessible") {
		if !matches(&in, x) {
			continue
		}
		if len(found) == in.Limit {
			last := found[len(found)-1]
			next = &tinker.SearchCursor{Created: last.Created, ID: last.ID}
			break
		}
		found = append(found, x)
	}
	return map[string]any{"sessions": found, "next_cursor": next}, nil
}

func matches(in *tinker.SearchSessions, x *tinker.SessionSummary) bool {
	if c := in.Cursor; c != nil && newestSession(&tinker.SessionSummary{ID: c.ID, Created: c.Created}, x) >= 0 {
		return false
	}
	if in.Owner.Type == "user" && !slices.Contains(in.Owner.URNs, x.Owner) {
		return false
	}
	if in.ProjectIDs != nil && !slices.Contains(in.ProjectIDs, x.ProjectID) {
		return false
	}
	for k, v := range in.UserMetadata {
		if x.UserMetadata[k] != v {
			return false
		}
	}
	isActive := func(q tinker.SessionStatus) bool { return x.Status != nil && q.Type == x.Status.Type }
	if in.Statuses != nil && !slices.ContainsFunc(in.Statuses, isActive) {
		return false
	}
	byName := in.DisplayName != ""
	for _, word := range strings.Fields(strings.ToLower(in.DisplayName)) {
		byName = byName && strings.Contains(strings.ToLower(x.DisplayName), word)
	}
	return in.DisplayName == "" && in.SessionID == "" || byName || in.SessionID == x.ID && in.SessionID != ""
}
