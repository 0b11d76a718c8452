package launcher

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/durable"
)

func init() {
	Launchers.Register("slurm",
		"Slurm: steps of the allocation in which the run is, as `trinity cluster submit` starts it, or else a job for each group.",
		func() Launcher { return &slurm{} })
}

// slurm starts groups as steps or jobs.
type slurm struct {
	Partition string   `yaml:"partition" doc:"partition of jobs; left out is the default one"`
	Account   string   `yaml:"account" doc:"account of jobs"`
	QOS       string   `yaml:"qos" doc:"quality of service of jobs"`
	Time      string   `yaml:"time" doc:"limit of time of jobs, such as 12:00:00"`
	CPUs      int      `yaml:"cpus_per_task" range:"[0,)" doc:"CPU cores of each machine; 0 leaves it to Slurm"`
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

// endSteps ends the steps of a group whose srun has been killed: Slurm lets them go on. scancel fails for a
// step that has just ended by itself, which squeue may list for some seconds more.
func endSteps(group string) error {
	const tries, pause = 10, time.Second / 2
	ctx := context.Background() // tool has a limit of time
	var failed error
	for range tries {
		steps, err := stepsOf(ctx, group)
		if err != nil || len(steps) == 0 {
			return err
		}
		failed = nil
		for _, step := range steps {
			_, err := tool(ctx, nil, "scancel", step)
			failed = errors.Join(failed, err)
		}
		if failed == nil {
			return nil
		}
		time.Sleep(pause)
	}
	return failed
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

// Reach implements Launcher.
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

// GPUs implements Launcher.
func (s *slurm) GPUs() (int, error) { return s.gpus, nil }

// Tools returns the commands whose versions trinity doctor reports.
func (*slurm) Tools() [][]string { return [][]string{{"sbatch", "--version"}, {"srun", "--version"}} }

// Describe implements Launcher.
func (s *slurm) Describe() string {
	if s.on != nil {
		return "steps of Slurm's job " + os.Getenv("SLURM_JOB_ID") + " on " + strings.Join(s.hosts, ", ")
	}
	return "jobs of Slurm"
}

// Render implements Launcher.
func (s *slurm) Render(g trinity.ProcessGroup) (string, error) {
	if s.on != nil {
		return s.on.render(g)
	}
	return s.batch(g, "FOLDER"), nil
}

// Launch implements Launcher.
func (s *slurm) Launch(ctx context.Context, g trinity.ProcessGroup) (Launched, error) {
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
