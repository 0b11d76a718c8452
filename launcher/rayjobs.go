package launcher

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/trinity-go/trinity/internal/retry"
)

const (
	rayPatience = 30 * time.Second // for an answer
	rayQuick    = 10 * time.Second // for an answer that trinity check waits for
)

// rayJobs is a client of Ray's Jobs API.
type rayJobs struct {
	address string // of the dashboard
	token   string // "" if the cluster wants none
	every   time.Duration
	client  retry.Client
}

// rayToken is Ray's variable for the token of a cluster that wants one.
const rayToken = "RAY_AUTH_TOKEN"

// raySecrets is the variable that names the secrets of a job in Ray's store.
const raySecrets = "TRINITY_RAY_SECRETS"

// newRayJobs returns a client of the Jobs API.
func newRayJobs(address string) rayJobs {
	j := rayJobs{address: address, token: os.Getenv(rayToken), every: time.Second}
	j.client.Name = fmt.Sprintf("Ray at %s (cluster.ray_address)", address)
	j.client.Timeout, j.client.Retries, j.client.Pause = rayPatience, 2, time.Second
	return j
}

// rayJob is a job to submit. Its fields are readable by everyone who sees the dashboard.
type rayJob struct {
	Entrypoint string            `json:"entrypoint"`
	ID         string            `json:"submission_id"`
	Runtime    rayRuntime        `json:"runtime_env"`
	Metadata   map[string]string `json:"metadata"`
}

// rayRuntime is where and with what a job runs.
type rayRuntime struct {
	Dir string            `json:"working_dir"`
	Env map[string]string `json:"env_vars"`
}

// rayStatus is the state of a job.
type rayStatus struct {
	ID       string            `json:"submission_id"`
	Status   string            `json:"status"`
	Message  string            `json:"message"`
	Metadata map[string]string `json:"metadata"`
}

func (s *rayStatus) ended() bool {
	return slices.Contains([]string{"STOPPED", "SUCCEEDED", "FAILED"}, s.Status)
}

// call sends a request with a JSON body and decodes the answer.
func (j *rayJobs) call(ctx context.Context, method, path string, in, out any) error {
	err := j.client.JSON(ctx, retry.Request{Method: method, URL: j.address + path, Header: j.header()}, in, out)
	return withTokenHint(err)
}

func (j *rayJobs) header() http.Header {
	h := http.Header{}
	if j.token != "" {
		h.Set("Authorization", "Bearer "+j.token)
	}
	return h
}

func withTokenHint(err error) error {
	var status *retry.StatusError
	if errors.As(err, &status) && (status.Code == http.StatusUnauthorized || status.Code == http.StatusForbidden) {
		return fmt.Errorf("%w: set %s to the cluster's token", err, rayToken)
	}
	return err
}

// submit uploads a job's files and secrets, and starts it. An answer that was lost is asked for
// again, and a job that exists then is this one: its name is random. The end of ctx does not
// interrupt the request that starts the job, which would then run without anyone who ends it.
func (j *rayJobs) submit(ctx context.Context, job rayJob, files, secrets []byte) error {
	dir, err := j.upload(ctx, files)
	if err != nil {
		return err
	}
	ticket, err := j.upload(ctx, secrets)
	if err != nil {
		return err
	}
	job.Runtime.Dir, job.Runtime.Env[raySecrets] = dir, ticket
	ctx = context.WithoutCancel(ctx)
	err = j.call(ctx, http.MethodPost, "/api/jobs/", job, nil)
	switch {
	case err == nil || strings.Contains(err.Error(), "already exists"):
		return nil
	case retry.IsTemporary(err): // Ray may have started it
		if left := j.askToStop(ctx, job.ID); left != nil {
			err = fmt.Errorf("%w; ending it, should it have begun: %w", err, left)
		}
	}
	return err
}

// upload puts data into Ray's store of packages, and returns its random name.
func (j *rayJobs) upload(ctx context.Context, data []byte) (string, error) {
	name := "_ray_pkg_" + strings.ToLower(rand.Text()) + ".zip"
	put := retry.Request{Method: http.MethodPut, URL: j.address + "/api/packages/gcs/" + name, Header: j.header(), Body: data}
	_, err := j.client.Do(ctx, put)
	return "gcs://" + name, withTokenHint(err)
}

// state returns the state of a job.
func (j *rayJobs) state(ctx context.Context, id string) (jobState, error) {
	var s rayStatus
	err := j.call(ctx, http.MethodGet, "/api/jobs/"+url.PathEscape(id), nil, &s)
	if isUnknown(err) {
		return jobState{"no longer known to Ray", true, true}, nil
	}
	words := s.Status
	if s.Message != "" {
		words += ": " + retry.OneLine([]byte(s.Message))
	}
	return jobState{words, s.ended(), s.Status == "FAILED"}, err
}

// isUnknown reports whether an error says that Ray has no such job.
func isUnknown(err error) bool {
	var refusal *retry.StatusError
	return errors.As(err, &refusal) && refusal.Code == http.StatusNotFound
}

// watch asks for the state of a job.
func (j *rayJobs) watch(id string) *watch {
	ask := func(ctx context.Context) (jobState, error) { return j.state(ctx, id) }
	return &watch{"the job " + id + " of Ray", j.every, ask}
}

// askToStop makes Ray end a job, if it has it.
func (j *rayJobs) askToStop(ctx context.Context, id string) error {
	err := j.call(ctx, http.MethodPost, "/api/jobs/"+url.PathEscape(id)+"/stop", nil, nil)
	if isUnknown(err) {
		return nil
	}
	return err
}

// stop ends a job and waits until it has ended.
func (j *rayJobs) stop(ctx context.Context, id string) error {
	if err := j.askToStop(ctx, id); err != nil {
		return err
	}
	_, err := j.watch(id).end(ctx, nil)
	return err
}

// logs returns what a job has printed.
func (j *rayJobs) logs(ctx context.Context, id string) (string, error) {
	var out struct{ Logs string }
	err := j.call(ctx, http.MethodGet, "/api/jobs/"+url.PathEscape(id)+"/logs", nil, &out)
	return out.Logs, err
}

// of returns the jobs of a run that have not ended, other than its driver.
func (j *rayJobs) of(ctx context.Context, run string) (ids []string, err error) {
	var all []rayStatus
	if err := j.call(ctx, http.MethodGet, "/api/jobs/", nil, &all); err != nil {
		return nil, err
	}
	for _, s := range all {
		if s.Metadata["trinity_run"] == run && s.ID != run && !s.ended() {
			ids = append(ids, s.ID)
		}
	}
	return ids, nil
}

// gpus returns the least number of GPUs of the nodes that have any.
func (j *rayJobs) gpus(ctx context.Context) (least int, err error) {
	var out struct {
		Data struct {
			Result struct {
				Result []struct {
					State     string
					Resources map[string]float64 `json:"resources_total"`
				}
			}
		}
	}
	if err := j.call(ctx, http.MethodGet, "/api/v0/nodes?detail=1", nil, &out); err != nil {
		return 0, err
	}
	for _, node := range out.Data.Result.Result {
		if n := int(node.Resources["GPU"]); n > 0 && node.State == "ALIVE" {
			least = min(n, cmp.Or(least, n))
		}
	}
	return least, nil
}
