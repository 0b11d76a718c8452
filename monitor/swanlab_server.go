package monitor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/retry"
)

// swanlabServer is what the sink knows of the server.
type swanlabServer struct {
	sid     string // of the session; "" before the login
	user    string // who logged in
	project swanlabProject
	id      string          // of the run there; "" until the server has the run
	created string          // when it got the run
	columns map[string]bool // metrics that the server knows
	// unsure is set if the server may have some of the next points: a process was killed, or an answer was
	// lost. The sink then asks for the newest step of each metric there.
	unsure bool
	newest map[string]int64
}

// swanlabProject is a project as the server returns it.
type swanlabProject struct {
	ID      string `json:"cuid"`
	Name    string `json:"name"`
	Version int    `json:"version"` // 0 is one of an older server, without views
	Group   struct {
		Username string `json:"username"`
	} `json:"group"`
}

// path is that of the project in addresses.
func (p *swanlabProject) path() string {
	return url.PathEscape(p.Group.Username) + "/" + url.PathEscape(p.Name)
}

// Limits of a request.
const (
	swanlabColumns = 3000
	swanlabPoints  = 10_000
)

// swanlabPoint is a value of a metric. NaN and infinities are the word nan.
type swanlabPoint struct {
	Key   string `json:"key"`
	Index int64  `json:"index"`
	Data  any    `json:"data"`
	Time  string `json:"create_time"`
}

type swanlabColumn struct {
	Key     string `json:"key"`
	Type    string `json:"type"`
	Section string `json:"sectionName,omitempty"`
}

// send sends the points of records.
func (s *swanlab) send(ctx context.Context, records []trinity.Record) error {
	if err := s.reach(ctx); err != nil {
		return err
	}
	if s.server.unsure {
		if err := s.readNewest(ctx); err != nil {
			return err
		}
	}
	var columns []swanlabColumn
	var points []swanlabPoint
	for _, r := range records {
		if s.server.has(r) {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(r.Metrics)) {
			if !s.server.columns[name] && !slices.ContainsFunc(columns, func(c swanlabColumn) bool { return c.Key == name }) {
				columns = append(columns, columnOf(name))
			}
			p := swanlabPoint{name, r.Step, r.Metrics[name], r.Time.UTC().Format("2006-01-02T15:04:05.000Z")}
			if v := r.Metrics[name]; math.IsNaN(v) || math.IsInf(v, 0) {
				p.Data = "nan"
			}
			points = append(points, p)
		}
	}
	for part := range slices.Chunk(columns, swanlabColumns) {
		if err := s.addColumns(ctx, part); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(points, swanlabPoints) {
		err := s.call(ctx, http.MethodPost, "/house/metrics", map[string]any{
			"type": "scalar", "projectId": s.server.project.ID, "experimentId": s.server.id, "metrics": part,
		}, nil)
		if err != nil {
			return err
		}
	}
	s.server.unsure = false
	return nil
}

// has reports whether the server got a record before it was asked for the newest steps. A metric that
// explorer and trainer both log proves nothing alone.
func (s *swanlabServer) has(r trinity.Record) bool {
	for name := range r.Metrics {
		if newest, known := s.newest[name]; !known || r.Step > newest {
			return false
		}
	}
	return true
}

// columnOf describes a metric. Its section is the first part of the name, as SwanLab's client has it.
func columnOf(name string) swanlabColumn {
	c := swanlabColumn{Key: name, Type: "FLOAT"}
	if section, _, ok := strings.Cut(name, "/"); ok {
		c.Section = section
	}
	return c
}

// addColumns tells the server of new metrics.
func (s *swanlab) addColumns(ctx context.Context, columns []swanlabColumn) error {
	var err error
	if s.server.project.Version == 0 {
		err = s.call(ctx, http.MethodPost, "/experiment/"+s.server.id+"/columns", columns, nil)
	} else {
		err = s.call(ctx, http.MethodPost, "/projects/"+s.server.project.path()+"/series", map[string]any{"series": columns}, nil)
	}
	if err != nil {
		return err
	}
	for _, c := range columns {
		s.server.columns[c.Key] = true
	}
	return nil
}

// readNewest asks for the newest step of each metric that the server has of the run.
func (s *swanlab) readNewest(ctx context.Context) error {
	at, err := time.Parse(time.RFC3339, s.server.created)
	if err != nil {
		at = s.run.Began
	}
	var out struct {
		Scalar []struct {
			Key  string
			Step int64
		}
	}
	err = s.call(ctx, http.MethodGet, fmt.Sprintf("/house/metrics/summaries/%s/%s?all=True&createdAt=%d", s.server.project.ID, s.server.id,
		at.Unix()), nil, &out)
	s.server.newest = map[string]int64{}
	for _, c := range out.Scalar {
		s.server.newest[c.Key], s.server.columns[c.Key] = c.Step, true
	}
	return err
}

// reach creates the run at the server, or finds it there.
func (s *swanlab) reach(ctx context.Context) error {
	if s.barred != nil || s.server.id != "" {
		return s.barred
	}
	if s.server.sid == "" {
		if err := s.login(ctx); err != nil {
			return err
		}
	}
	if err := s.findProject(ctx); err != nil {
		return err
	}
	var labels []map[string]string
	for _, tag := range s.Tags {
		labels = append(labels, map[string]string{"name": tag})
	}
	const colour = "#528d59"
	body := map[string]any{
		"name": cmp.Or(s.ExperimentName, s.run.Name), "createdAt": swanlabNow(), "colors": []string{colour, colour}, "cuid": s.run.ID,
	}
	if len(labels) > 0 {
		body["labels"] = labels
	}
	for key, text := range map[string]string{"description": s.Description, "cluster": s.run.Group} {
		if text != "" {
			body[key] = text
		}
	}
	var out struct {
		ID      string `json:"cuid"`
		Created string `json:"createdAt"`
	}
	path := "/project/" + s.server.project.path()
	if err := s.call(ctx, http.MethodPost, path+"/experiment", body, &out); err != nil {
		return err
	}
	if out.ID == "" {
		return fmt.Errorf("%s: the answer names no experiment", s.APIHost)
	}
	settings := map[string]any{}
	for i, key := range slices.Sorted(maps.Keys(s.run.Settings)) {
		settings[key] = map[string]any{"value": s.run.Settings[key], "sort": i, "desc": ""}
	}
	if err := s.call(ctx, http.MethodPut, path+"/runs/"+out.ID+"/profile", map[string]any{"config": settings}, nil); err != nil {
		return err
	}
	s.server.id, s.server.created, s.server.columns, s.server.unsure = out.ID, out.Created, map[string]bool{}, true
	return nil
}

// findProject finds the project, and creates it if there is none.
func (s *swanlab) findProject(ctx context.Context) error {
	user := cmp.Or(s.workspace(), s.server.user)
	find := func() error {
		return s.call(ctx, http.MethodGet, "/project/"+url.PathEscape(user)+"/"+url.PathEscape(s.run.Project), nil, &s.server.project)
	}
	err := find()
	var refused *retry.StatusError
	if errors.As(err, &refused) && refused.Code == http.StatusNotFound {
		err = s.call(ctx, http.MethodPost, "/projects/"+url.PathEscape(user),
			map[string]any{"name": s.run.Project, "visibility": "PRIVATE"}, nil)
		if errors.As(err, &refused) && refused.Code == http.StatusConflict { // another run has created it since
			err = nil
		}
		if err == nil {
			err = find()
		}
	}
	if p := s.server.project; err == nil && (p.ID == "" || p.Name == "" || p.Group.Username == "") {
		err = fmt.Errorf("%s: the answer names no project", s.APIHost)
	}
	return err
}

// tell tells the server how the run ended.
func (s *swanlab) tell(ctx context.Context, status Status) error {
	if err := s.reach(ctx); err != nil {
		return err
	}
	state := map[Status]string{Finished: "FINISHED", Failed: "CRASHED", Stopped: "ABORTED"}[status]
	return s.call(ctx, http.MethodPut, "/project/"+s.server.project.path()+"/runs/"+s.server.id+"/state",
		map[string]any{"state": state, "finishedAt": swanlabNow(), "from": "sdk"}, nil)
}

// swanlabBeat is how often SwanLab's own client says that a run lives.
var swanlabBeat = 10 * time.Minute

// sendBeat tells the server that the run lives, if it knows the run.
func (s *swanlab) sendBeat(ctx context.Context) error {
	if s.server.id == "" {
		return nil
	}
	return s.call(ctx, http.MethodPost, "/house/experiments/"+s.server.id+"/heartbeat", map[string]any{"flagId": "123456"}, nil)
}

// swanlabNow is the time as SwanLab's client writes it. The server looks for points that it got between
// the times that it is told, so these are not those of the run.
func swanlabNow() string { return time.Now().UTC().Format("2006-01-02T15:04:05.000000Z") }

// login begins a session.
func (s *swanlab) login(ctx context.Context) error {
	var out struct {
		SID  string `json:"sid"`
		User struct {
			Username string `json:"username"`
		} `json:"userInfo"`
	}
	r := s.request(http.MethodPost, "/login/api_key")
	r.Header.Set("Authorization", s.key())
	if err := client().JSON(ctx, r, nil, &out); err != nil {
		return err
	}
	if out.SID == "" || out.User.Username == "" {
		return fmt.Errorf("%s: the answer to the login names no session", s.APIHost)
	}
	s.server.sid, s.server.user = out.SID, out.User.Username
	return nil
}

// call sends a request of the session. If the session has ended, it begins another one.
func (s *swanlab) call(ctx context.Context, method, path string, in, out any) error {
	for again := false; ; again = true {
		r := s.request(method, path)
		r.Header.Set("Cookie", "sid="+s.server.sid)
		err := client().JSON(ctx, r, in, out)
		var refused *retry.StatusError
		if again || !errors.As(err, &refused) || refused.Code != http.StatusUnauthorized {
			return err
		}
		if err := s.login(ctx); err != nil {
			return err
		}
	}
}

func (s *swanlab) request(method, path string) retry.Request {
	return retry.Request{
		Method: method, URL: strings.TrimRight(s.APIHost, "/") + "/api" + path, Header: http.Header{"X-Swanlab-Sdk-Version": {swanlabVersion}},
	}
}

// swanlabVersion is that of the client whose requests these are.
const swanlabVersion = "0.10.3"
