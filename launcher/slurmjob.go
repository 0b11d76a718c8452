package launcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
)

// batch returns the script of a group's job. A folder of its own has what its machines run. The
// command stands in a comment for people, in one line.
func (s *slurm) batch(g trinity.ProcessGroup, dir string) string {
	start := filepath.Join(dir, startFile)
	return s.head(g, filepath.Join(dir, logFile)) + fmt.Sprintf(
		"srun --nodes=%d --ntasks=%[1]d --kill-on-bad-exit=1 sh %s # %s\nstatus=$?\nrm -f %[2]s\nexit \"$status\"\n",
		g.Nodes, quote(start), strings.Join(strings.Fields(quoteAll(g.Command)), " "))
}

// head returns the beginning of a script of sbatch.
func (s *slurm) head(g trinity.ProcessGroup, log string) string {
	options := []string{"--job-name=" + slurmName + g.Name, fmt.Sprintf("--nodes=%d", g.Nodes), "--ntasks-per-node=1", "--output=" + log}
	for _, o := range []struct{ name, value string }{
		{"gpus-per-node", positive(g.GPUs)}, {"cpus-per-task", positive(s.CPUs)}, {"mem", s.Memory}, {"partition", s.Partition},
		{"account", s.Account}, {"qos", s.QOS}, {"time", s.Time},
	} {
		if o.value != "" {
			options = append(options, "--"+o.name+"="+o.value)
		}
	}
	var text strings.Builder
	text.WriteString("#!/bin/sh\n")
	for _, option := range append(options, s.Options...) {
		text.WriteString("#SBATCH " + option + "\n")
	}
	return text.String()
}

func positive(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// job is a group that is a job of Slurm.
type job struct{ id, dir string }

// Wait implements Launched.
func (x *job) Wait(ctx context.Context) error {
	return watchJob(x.id).success(ctx)
}

// Stop implements Launched.
func (x *job) Stop(ctx context.Context) error {
	_, err := tool(ctx, nil, "scancel", x.id)
	if err == nil {
		_, err = watchJob(x.id).end(ctx, nil)
	}
	return errors.Join(err, os.RemoveAll(x.dir))
}

// Logs implements Launched.
func (x *job) Logs(_ context.Context, w io.Writer) error {
	data, err := os.ReadFile(filepath.Join(x.dir, logFile))
	if errors.Is(err, os.ErrNotExist) { // the job has not begun
		return nil
	}
	if err == nil {
		_, err = w.Write(data)
	}
	return err
}

// submit sends a script to Slurm, and returns the number of the job. The end of ctx does not interrupt
// it: nobody would know the job.
func submit(ctx context.Context, script string) (string, error) {
	out, err := tool(context.WithoutCancel(ctx), []byte(script), "sbatch", "--parsable")
	if err != nil {
		return "", err
	}
	id, _, _ := strings.Cut(strings.TrimSpace(out), ";") // the name of the cluster may follow
	return id, nil
}

// watchJob asks Slurm for the state of a job.
func watchJob(id string) *watch {
	ask := func(ctx context.Context) (jobState, error) { return stateOf(ctx, id) }
	return &watch{"job " + id + " of Slurm", askEvery, ask}
}

// askEvery is the pause between questions to Slurm.
const askEvery = 3 * time.Second

// alive are the states of jobs that have not ended.
var alive = []string{"PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "RESIZING", "REQUEUED", "REQUEUE_HOLD",
	"SIGNALING", "STAGE_OUT", "RESV_DEL_HOLD", "SPECIAL_EXIT"}

// stateOf returns the state of a job, why it waits or how it failed, and whether it has ended. Slurm
// forgets jobs some minutes after their end.
func stateOf(ctx context.Context, id string) (jobState, error) {
	out, err := tool(ctx, nil, "scontrol", "show", "job", "-o", id)
	if err != nil {
		if strings.Contains(err.Error(), "Invalid job id") {
			return jobState{"ended, and no longer known to Slurm", true, true}, nil
		}
		return jobState{}, err
	}
	fields := map[string]string{}
	for field := range strings.FieldsSeq(out) {
		if name, value, ok := strings.Cut(field, "="); ok && fields[name] == "" {
			fields[name] = value
		}
	}
	words := fields["JobState"]
	state := jobState{ended: !slices.Contains(alive, words), failed: words != "COMPLETED"}
	switch reason := fields["Reason"]; {
	case state.ended && fields["ExitCode"] != "0:0":
		words += ", exit code " + fields["ExitCode"]
	case reason != "" && reason != "None":
		words += " (" + reason + ")"
	}
	state.words = words
	return state, nil
}
