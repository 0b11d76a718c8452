package launcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/config"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/process"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Launchers.Register("slurm",
		"Slurm: steps of the allocation in which the run is, as `trinity cluster submit` starts it, or else a job for each group.",
		func() trinity.Launcher { return &slurm{} })
}

// slurm starts groups as steps or jobs.
type slurm struct {
	Partition string   `yaml:"partition" doc:"partition of jobs; left out is the default one"`
	Account   string   `yaml:"account" doc:"account of jobs"`
	QOS       string   `yaml:"qos" doc:"quality of service of jobs"`
	Time      string   `yaml:"time" doc:"limit of time of jobs, such as 12:00:00"`
	CPUs      int      `yaml:"cpus_per_task" doc:"CPU cores of each machine; 0 leaves it to Slurm"`
	Memory    string   `yaml:"mem" doc:"memory of each machine, such as 100G; left out leaves it to Slurm"`
	Options   []string `yaml:"options" doc:"more options of sbatch, such as [--constraint=a100]"`
	Folder    string   `yaml:"folder" doc:"folder that all machines share, for logs and start scripts; left out is ~/.trinity/slurm"`
	Program   string   `yaml:"program" doc:"trinity on the machines, for trinity cluster submit; left out is the program that submits"`
	Host      string   `yaml:"host" doc:"name or address of the driver's machine for the others; left out, it is found out"`

	hosts []string // of the allocation; nil outside of one
	nodes int
	gpus  int
	on    *remote // the steps of the allocation; nil outside of one
}

// Validate requires values that are words of a script.
func (s *slurm) Validate() error {
	for key, value := range map[string]string{
		"partition": s.Partition, "account": s.Account, "qos": s.QOS, "time": s.Time, "mem": s.Memory, "folder": s.Folder, "host": s.Host,
	} {
		if strings.ContainsFunc(value, isBlank) {
			return fmt.Errorf("%s: %q has a space", key, value)
		}
	}
	for _, option := range s.Options {
		if !strings.HasPrefix(option, "--") || strings.ContainsAny(option, "\n\r") {
			return fmt.Errorf("options: %q is no option of sbatch, such as --constraint=a100", option)
		}
	}
	if s.CPUs < 0 {
		return fmt.Errorf("cpus_per_task: must not be negative, got %d", s.CPUs)
	}
	return nil
}

func isBlank(r rune) bool { return r <= ' ' }

// ReadCluster implements config.ClusterReader.
func (s *slurm) ReadCluster(c *config.Cluster) error {
	s.gpus, s.nodes = c.GPUPerNode, max(1, c.NodeNum)
	if s.Folder == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return fmt.Errorf("launcher_args.folder: name a folder that all machines share: %w", err)
		}
		s.Folder = filepath.Join(home, ".trinity", "slurm")
	}
	list := os.Getenv("SLURM_JOB_NODELIST")
	if os.Getenv("SLURM_JOB_ID") == "" || list == "" {
		return nil
	}
	out, err := tool(context.Background(), nil, "scontrol", "show", "hostnames", list)
	if err != nil {
		return fmt.Errorf("listing the machines of the allocation: %w", err)
	}
	s.hosts = strings.Fields(out)
	if len(s.hosts) < c.NodeNum {
		return fmt.Errorf("cluster.node_num is %d, and the allocation has %d machines: %s", c.NodeNum, len(s.hosts),
			strings.Join(s.hosts, ", "))
	}
	if s.gpus == 0 {
		s.gpus, _ = strconv.Atoi(os.Getenv("SLURM_GPUS_ON_NODE")) // is not set without GPUs
	}
	s.on = newRemote(s.hosts, s.gpus, s.step)
	s.on.sweep = endSteps
	return nil
}

// step returns the command that starts a shell on a machine of the allocation. A step gets all GPUs
// of the machine: the shell leaves a program those of its group.
func (s *slurm) step(group, host string) []string {
	command := []string{"srun", "--overlap", "--nodes=1", "--ntasks=1", "--nodelist=" + host, "--job-name=" + slurmName + group}
	if s.gpus > 0 {
		command = append(command, fmt.Sprintf("--gpus-per-node=%d", s.gpus))
	}
	if s.CPUs > 0 {
		command = append(command, fmt.Sprintf("--cpus-per-task=%d", s.CPUs))
	}
	return append(command, "sh", "-s")
}

const slurmName = "trinity-" // with the name of the group

// endSteps ends the steps of a group whose srun has been killed: Slurm lets them go on. A step may end
// by itself meanwhile, and scancel then fails.
func endSteps(group string) error {
	ctx := context.Background() // tool has a limit of time
	steps, err := stepsOf(ctx, group)
	if err != nil {
		return err
	}
	var errs []error
	for _, step := range steps {
		if _, err := tool(ctx, nil, "scancel", step); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		return nil
	}
	left, err := stepsOf(ctx, group)
	if err == nil && len(left) > 0 {
		err = errs[0]
	}
	return err
}

// stepsOf returns the steps of a group that Slurm knows.
func stepsOf(ctx context.Context, group string) (steps []string, err error) {
	out, err := tool(ctx, nil, "squeue", "--noheader", "--steps", "--jobs="+os.Getenv("SLURM_JOB_ID"), "--format=%i %j")
	for line := range strings.Lines(out) {
		if step, name, _ := strings.Cut(strings.TrimSpace(line), " "); strings.TrimSpace(name) == slurmName+group {
			steps = append(steps, step)
		}
	}
	return steps, err
}

// Reach implements trinity.Launcher.
func (s *slurm) Reach() string {
	own := os.Getenv("SLURMD_NODENAME") // "" on a login node
	if s.Host != "" {
		return s.Host
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, host := range s.hosts {
		if host != own {
			return addressTowards(ctx, host)
		}
	}
	if own != "" && s.on != nil {
		return "" // the allocation has no other machine
	}
	name, _ := os.Hostname()
	return name
}

// GPUs implements trinity.Launcher.
func (s *slurm) GPUs() int { return s.gpus }

// Describe implements trinity.Launcher.
func (s *slurm) Describe() string {
	if s.on != nil {
		return "steps of Slurm's job " + os.Getenv("SLURM_JOB_ID") + " on " + strings.Join(s.hosts, ", ")
	}
	return "jobs of Slurm"
}

// Render implements trinity.Launcher.
func (s *slurm) Render(g trinity.ProcessGroup) (string, error) {
	if s.on != nil {
		return s.on.render(g)
	}
	return s.batch(g, "FOLDER"), nil
}

// Launch implements trinity.Launcher.
func (s *slurm) Launch(ctx context.Context, g trinity.ProcessGroup) (trinity.Launched, error) {
	switch {
	case s.on != nil:
		return s.on.launch(g)
	case g.Beside != "" && g.GPUs > 0:
		return nil, fmt.Errorf("%s shares GPUs with %s, which two jobs of Slurm cannot: start the run with `trinity cluster submit`",
			g.Name, g.Beside)
	}
	if err := os.MkdirAll(s.Folder, 0o755); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(s.Folder, g.Name+"-")
	if err != nil {
		return nil, err
	}
	x := &job{dir: dir}
	start, err := shellScript(g, nil, untilSignalled)
	if err == nil {
		err = durable.WriteSecret(filepath.Join(dir, startFile), start)
	}
	if err == nil {
		x.id, err = submit(ctx, s.batch(g, dir))
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return x, nil
}

// Files in the folder of a job.
const (
	startFile = "start.sh" // has secrets
	logFile   = "log"
)

// batch returns the script of a group's job. A folder of its own has what its machines run.
func (s *slurm) batch(g trinity.ProcessGroup, dir string) string {
	start := filepath.Join(dir, startFile)
	return s.head(g, filepath.Join(dir, logFile)) + fmt.Sprintf(
		"srun --nodes=%d --ntasks=%[1]d --kill-on-bad-exit=1 sh %s # %s\nstatus=$?\nrm -f %[2]s\nexit \"$status\"\n",
		g.Nodes, quote(start), quoteAll(g.Command))
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

// Wait implements trinity.Launched.
func (x *job) Wait(ctx context.Context) error {
	state, err := awaitEnd(ctx, x.id)
	if err == nil && state != "COMPLETED" {
		err = fmt.Errorf("job %s of Slurm: %s", x.id, state)
	}
	return err
}

// Stop implements trinity.Launched.
func (x *job) Stop(ctx context.Context) error {
	_, err := tool(ctx, nil, "scancel", x.id)
	if err == nil {
		_, err = awaitEnd(ctx, x.id)
	}
	return errors.Join(err, os.RemoveAll(x.dir))
}

// Logs implements trinity.Launched.
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

// submit sends a script to Slurm, and returns the number of the job.
func submit(ctx context.Context, script string) (string, error) {
	out, err := tool(ctx, []byte(script), "sbatch", "--parsable")
	if err != nil {
		return "", err
	}
	id, _, _ := strings.Cut(strings.TrimSpace(out), ";") // the name of the cluster may follow
	return id, nil
}

// Pauses between questions to Slurm, and how long it may give no answer.
const (
	askEvery = 3 * time.Second
	askFor   = 5 * time.Minute
)

// awaitEnd waits until a job has ended, and returns its last state.
func awaitEnd(ctx context.Context, id string) (string, error) {
	answered := time.Now()
	for {
		state, ended, err := stateOf(ctx, id)
		switch {
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		case err != nil && time.Since(answered) > askFor:
			return "", err
		case err == nil && ended:
			return state, nil
		case err == nil:
			answered = time.Now()
		}
		select {
		case <-ctx.Done():
		case <-time.After(askEvery):
		}
	}
}

// alive are the states of jobs that have not ended.
var alive = []string{"PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "RESIZING", "REQUEUED", "REQUEUE_HOLD",
	"SIGNALING", "STAGE_OUT", "RESV_DEL_HOLD", "SPECIAL_EXIT"}

// stateOf returns the state of a job, why it waits or how it failed, and whether it has ended. Slurm
// forgets jobs some minutes after their end.
func stateOf(ctx context.Context, id string) (state string, ended bool, err error) {
	out, err := tool(ctx, nil, "scontrol", "show", "job", "-o", id)
	if err != nil {
		if strings.Contains(err.Error(), "Invalid job id") {
			return "ended, and no longer known to Slurm", true, nil
		}
		return "", false, err
	}
	fields := map[string]string{}
	for field := range strings.FieldsSeq(out) {
		if name, value, ok := strings.Cut(field, "="); ok && fields[name] == "" {
			fields[name] = value
		}
	}
	state = fields["JobState"]
	ended = !slices.Contains(alive, state)
	switch reason := fields["Reason"]; {
	case ended && fields["ExitCode"] != "0:0":
		state += ", exit code " + fields["ExitCode"]
	case reason != "" && reason != "None":
		state += " (" + reason + ")"
	}
	return state, ended, nil
}

// tool runs a program of Slurm.
func tool(ctx context.Context, input []byte, command ...string) (string, error) {
	if _, err := exec.LookPath(command[0]); err != nil {
		return "", fmt.Errorf("%s is not on this machine: use Slurm's login node, or another cluster.launcher", command[0])
	}
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, fmt.Errorf("%s has not answered for a minute", command[0]))
	defer cancel()
	out, err := (&process.Program{Command: command}).Run(ctx, input, 4<<20)
	if err != nil {
		return "", fmt.Errorf("%s: %w", command[0], err)
	}
	return string(out), nil
}
