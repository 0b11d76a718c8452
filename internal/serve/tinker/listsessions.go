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

// sessions returns the sessions that live, and those that checkpoints tell of: the newest first.
func (x *lists) sessions(owner string, accessible bool) []*tinker.SessionSummary {
	all := x.live(owner).sessions
	known := map[string]*tinker.SessionSummary{}
	for _, of := range all {
		known[of.ID] = of
	}
	for _, c := range x.store.named(owner, accessible) {
		of := known[sessionOf(c.path.Run)]
		if of == nil {
			of = &tinker.SessionSummary{
				ID: sessionOf(c.path.Run), Created: c.Session.Made.UTC(), Owner: c.Owner, ProjectID: c.Session.Project,
				DisplayName: c.Session.Name, UserMetadata: c.Session.Metadata,
			}
			known[of.ID], all = of, append(all, of)
		}
		of.Checkpoints++
		of.Bytes += c.Bytes
	}
	slices.SortFunc(all, newestSession)
	return all
}

func newestSession(a, b *tinker.SessionSummary) int {
	return cmp.Or(b.Created.Compare(a.Created), strings.Compare(b.ID, a.ID))
}

func (x *lists) sessionPage(r *http.Request, owner string, _ []byte) (any, error) {
	ids := []string{}
	for _, of := range x.sessions(owner, isAccessible(r)) {
		ids = append(ids, of.ID)
	}
	part, _, err := page(r, 20, ids)
	return map[string]any{"sessions": part}, err
}

func (x *lists) oneSession(r *http.Request, owner string, _ []byte) (any, error) {
	id := r.PathValue("id")
	all := x.sessions(owner, isAccessible(r))
	at := slices.IndexFunc(all, func(of *tinker.SessionSummary) bool { return of.ID == id })
	if at < 0 {
		return nil, missing("there is no session %.100q: it has ended, and has no checkpoint", id)
	}
	runs := []string{}
	for _, run := range x.runs(owner, isAccessible(r)) {
		if sessionOf(run.ID) == id {
			runs = append(runs, run.ID)
		}
	}
	samplers := slices.DeleteFunc(append([]string{}, x.live(owner).samplers...), func(name string) bool { return sessionOf(name) != id })
	slices.Sort(runs)
	slices.Sort(samplers)
	reply := map[string]any{"training_run_ids": runs, "sampler_ids": samplers}
	if name := all[at].DisplayName; name != "" {
		reply["display_name"] = name
	}
	if metadata := all[at].UserMetadata; metadata != nil {
		reply["user_metadata"] = metadata
	}
	return reply, nil
}

// moveSession puts a session under a project, which is a label: its owner may choose any.
func (x *lists) moveSession(r *http.Request, owner string, body []byte) (any, error) {
	var in struct {
		Project string `json:"project_id"`
	}
	if err := read(body, &in); err != nil {
		return nil, err
	}
	if in.Project == "" {
		return nil, bad("project_id is missing")
	}
	if err := isShort("project_id", len(in.Project)); err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	found, err := x.move(owner, id, in.Project)
	if err != nil {
		return nil, &ownError{err}
	}
	for _, c := range x.store.named(owner, false) {
		if sessionOf(c.path.Run) == id {
			found = true
			if err := x.store.change(owner, c.path, func(f *facts) { f.Session.Project = in.Project }); err != nil {
				return nil, err
			}
		}
	}
	if !found {
		return nil, missing("there is no session %.100q", id)
	}
	return struct{}{}, nil
}

// search answers a page of the sessions that match each part of a search.
func (x *lists) search(_ *http.Request, owner string, body []byte) (any, error) {
	in := tinker.SearchSessions{Limit: 50}
	if err := read(body, &in); err != nil {
		return nil, err
	}
	if in.Limit < 1 || in.Limit > 200 {
		return nil, bad("limit is %d: want 1 to 200", in.Limit)
	}
	found := []*tinker.SessionSummary{}
	var next *tinker.SearchCursor
	for _, of := range x.sessions(owner, in.Owner.Type == "accessible") {
		if !matches(&in, of) {
			continue
		}
		if len(found) == in.Limit {
			last := found[len(found)-1]
			next = &tinker.SearchCursor{Created: last.Created, ID: last.ID}
			break
		}
		found = append(found, of)
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
