package launcher

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/retry"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Launchers.Register("kubernetes", "A Kubernetes cluster: each group is an indexed Job, which kubectl creates with your login. "+
		"docs/operate/cluster-kubernetes.md says what the image and the driver need.", newKubernetes)
}

func newKubernetes() trinity.Launcher {
	run := cmp.Or(os.Getenv(podRun), "trinity-"+strings.ToLower(rand.Text()[:8]))
	return &kubernetes{GPU: "nvidia.com/gpu", Keep: 3600, run: run, every: 2 * time.Second}
}

// podRun is the variable that names the run of a driver that Submit has started.
const podRun = "TRINITY_KUBERNETES_RUN"

// kubernetes starts groups as Jobs, by kubectl.
type kubernetes struct {
	Image        string            `yaml:"image" doc:"image of all pods; to submit runs, it also has trinity and kubectl"`
	Namespace    string            `yaml:"namespace" doc:"left out is that of kubectl's context"`
	Context      string            `yaml:"context" doc:"of kubectl; left out is the current one. A driver in the cluster has none"`
	Account      string            `yaml:"service_account" doc:"of all pods; only a driver gets its token"`
	Resources    map[string]any    `yaml:"resources" doc:"requests and limits of each pod besides GPUs, such as {cpu: 8, memory: 64Gi}"`
	GPU          string            `yaml:"gpu" doc:"resource that counts GPUs"`
	NodeSelector map[string]string `yaml:"node_selector" doc:"labels of the nodes"`
	Volumes      map[string]string `yaml:"volumes" doc:"where pods have persistent volume claims, such as {runs: /runs}"`
	Host         string            `yaml:"host" doc:"name or address of this machine for pods; left out is that of its interface"`
	Keep         int               `yaml:"keep" doc:"seconds for which Kubernetes keeps a Job that has ended, with its logs"`

	run   string
	every time.Duration // between two questions after a Job
}

var _ trinity.Scheduler = (*kubernetes)(nil)

// Validate implements the registry's check.
func (k *kubernetes) Validate() error {
	switch {
	case k.Image == "":
		return errors.New("image: name one that has the Python of trainer.trainer_args.python")
	case k.Keep < 0:
		return fmt.Errorf("keep: want at least 0, got %d", k.Keep)
	}
	for claim, path := range k.Volumes {
		if !strings.HasPrefix(path, "/") {
			return fmt.Errorf("volumes: the claim %s is at %q, which is no absolute path", claim, path)
		}
	}
	return nil
}

// Reach implements trinity.Launcher.
func (k *kubernetes) Reach() string {
	if k.Host != "" {
		return k.Host
	}
	return ownAddress(cmp.Or(os.Getenv("KUBERNETES_SERVICE_HOST"), "203.0.113.1"))
}

// Describe implements trinity.Launcher.
func (k *kubernetes) Describe() string {
	return "Jobs of Kubernetes, namespace " + cmp.Or(k.Namespace, "of kubectl's context") + ", image " + k.Image
}

// GPUs implements trinity.Launcher: few users may read the cluster's nodes.
func (*kubernetes) GPUs() int { return 0 }

// Render implements trinity.Launcher.
func (k *kubernetes) Render(g trinity.ProcessGroup) (string, error) {
	job, rest, err := k.manifests(k.group(g), "")
	if err != nil {
		return "", err
	}
	hide(rest)
	return asYAML(append([]manifest{job}, rest...))
}

// group describes the pods of a group.
func (k *kubernetes) group(g trinity.ProcessGroup) pods {
	return pods{ProcessGroup: g, run: k.run, job: k.run + "-" + g.Name}
}

// Launch implements trinity.Launcher.
func (k *kubernetes) Launch(ctx context.Context, g trinity.ProcessGroup) (trinity.Launched, error) {
	p := k.group(g)
	if err := k.create(ctx, p); err != nil {
		return nil, err
	}
	return &launchedJob{k, p}, nil
}

// create creates a Job and then all that its pods wait for, which Kubernetes removes with it.
func (k *kubernetes) create(ctx context.Context, p pods) error {
	job, _, err := k.manifests(p, "")
	if err != nil {
		return err
	}
	uid, err := k.apply(ctx, []manifest{job}, "-o", "jsonpath={.metadata.uid}")
	if err != nil {
		return err
	}
	_, rest, err := k.manifests(p, strings.TrimSpace(uid))
	if err == nil {
		_, err = k.apply(ctx, rest)
	}
	if err != nil {
		return errors.Join(err, k.remove(ctx, labelGroup+"="+p.job))
	}
	return nil
}

func (k *kubernetes) apply(ctx context.Context, all []manifest, args ...string) (string, error) {
	text, err := asYAML(all)
	if err != nil {
		return "", err
	}
	out, err := k.kubectl(ctx, text, append([]string{"create", "-f", "-"}, args...)...)
	return string(out), err
}

// remove deletes the Jobs with a label, and waits until their pods are gone.
func (k *kubernetes) remove(ctx context.Context, selector string) error {
	_, err := k.kubectl(ctx, "", "delete", "job", "--selector", selector, "--cascade=foreground", "--wait", "--ignore-not-found")
	return err
}

// command returns a call of kubectl.
func (k *kubernetes) command(ctx context.Context, args ...string) (*exec.Cmd, error) {
	path, err := exec.LookPath("kubectl")
	if err != nil {
		return nil, errors.New("kubectl is not on PATH: install it, and log in to the cluster")
	}
	if k.Namespace != "" {
		args = append([]string{"--namespace", k.Namespace}, args...)
	}
	if k.Context != "" && os.Getenv(podRun) == "" {
		args = append([]string{"--context", k.Context}, args...)
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.WaitDelay = time.Second
	return cmd, nil
}

// kubectl returns what kubectl prints. Its error is what kubectl says.
func (k *kubernetes) kubectl(ctx context.Context, input string, args ...string) ([]byte, error) {
	cmd, err := k.command(ctx, args...)
	if err != nil {
		return nil, err
	}
	var out, said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &said
	switch err := cmd.Run(); {
	case err == nil:
		return out.Bytes(), nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("kubectl %s: %w", args[0], context.Cause(ctx))
	default:
		return nil, fmt.Errorf("kubectl %s: %s", args[0], cmp.Or(retry.OneLine(said.Bytes()), err.Error()))
	}
}

// launchedJob is a group that runs as a Job.
type launchedJob struct {
	k *kubernetes
	p pods
}

// Wait implements trinity.Launched.
func (x *launchedJob) Wait(ctx context.Context) error { return x.k.wait(ctx, x.p.job) }

// Stop implements trinity.Launched.
func (x *launchedJob) Stop(ctx context.Context) error { return x.k.remove(ctx, labelGroup+"="+x.p.job) }

// Logs implements trinity.Launched: also why pods have not begun.
func (x *launchedJob) Logs(ctx context.Context, w io.Writer) error {
	states, err := x.k.states(ctx, x.p.job)
	if err != nil {
		return err
	}
	for _, s := range states {
		if s.why != "" {
			fmt.Fprintln(w, s)
		}
	}
	out, err := x.k.kubectl(ctx, "", "logs", "--selector", labelGroup+"="+x.p.job, "--prefix", "--tail=-1", "--ignore-errors",
		"--max-log-requests=1000")
	if err != nil {
		return err
	}
	_, err = w.Write(out)
	return err
}

// wait waits for the end of a Job. The error says why it failed, or why nothing is known of it.
func (k *kubernetes) wait(ctx context.Context, job string) error {
	const silence = time.Minute
	heard := time.Now()
	for {
		state, err := k.state(ctx, job)
		switch {
		case err == nil && state.failed:
			return fmt.Errorf("the Job %s failed: %s", job, state.why)
		case err == nil && state.ended:
			return nil
		case err == nil:
			heard = time.Now()
		case isNotFound(err) || time.Since(heard) > silence:
			return fmt.Errorf("asking for the Job %s: %w", job, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the end of the Job %s: %w", job, context.Cause(ctx))
		case <-time.After(k.every):
		}
	}
}

var notFound = regexp.MustCompile(`\bNotFound\b`)

func isNotFound(err error) bool { return notFound.MatchString(err.Error()) }

// jobState is the state of a Job.
type jobState struct {
	ended, failed bool
	why           string
}

// state asks for the state of a Job.
func (k *kubernetes) state(ctx context.Context, job string) (jobState, error) {
	out, err := k.kubectl(ctx, "", "get", "job", job, "-o", "json")
	if err != nil {
		return jobState{}, err
	}
	var j struct {
		Status struct {
			Conditions []struct{ Type, Status, Reason, Message string }
		}
	}
	if err := json.Unmarshal(out, &j); err != nil {
		return jobState{}, fmt.Errorf("kubectl get job: %w", err)
	}
	for _, c := range j.Status.Conditions {
		if c.Status == "True" && (c.Type == "Complete" || c.Type == "Failed") {
			return jobState{true, c.Type == "Failed", strings.Trim(c.Reason+": "+c.Message, ": ")}, nil
		}
	}
	return jobState{}, nil
}
