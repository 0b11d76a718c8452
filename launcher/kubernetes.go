package launcher

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
)

func init() {
	Launchers.Register("kubernetes", "A Kubernetes cluster: each group is an indexed Job, which kubectl creates with your login. "+
		"docs/operate/cluster-kubernetes.md says what the image and the driver need.", newKubernetes)
}

func newKubernetes() Launcher {
	run := cmp.Or(os.Getenv(podRun), "trinity-"+strings.ToLower(rand.Text()[:8]))
	return &kubernetes{GPU: "nvidia.com/gpu", Keep: 3600, run: run, every: 2 * time.Second}
}

// podRun is the variable that names the run of a driver that Submit has started.
const podRun = "TRINITY_KUBERNETES_RUN"

// kubernetes starts groups as Jobs, by kubectl.
type kubernetes struct {
	Image        string            `yaml:"image" required:"name one with the trainer's Python" doc:"of all pods; it has kubectl, to submit"`
	Namespace    string            `yaml:"namespace" doc:"left out is that of kubectl's context"`
	Context      string            `yaml:"context" doc:"of kubectl; left out is the current one. A driver in the cluster has none"`
	Account      string            `yaml:"service_account" doc:"of all pods; only a driver gets its token"`
	Resources    map[string]any    `yaml:"resources" doc:"requests and limits of each pod besides GPUs, such as {cpu: 8, memory: 64Gi}"`
	GPU          string            `yaml:"gpu" doc:"resource that counts GPUs"`
	NodeSelector map[string]string `yaml:"node_selector" doc:"labels of the nodes"`
	Volumes      map[string]string `yaml:"volumes" doc:"where pods have persistent volume claims, such as {runs: /runs}"`
	Host         string            `yaml:"host" doc:"name or address of this machine for pods; left out is that of its interface"`
	Keep         int               `yaml:"keep" range:"[0,)" doc:"seconds for which Kubernetes keeps a Job that has ended, with its logs"`

	run   string
	every time.Duration // between two questions after a Job
}

var _ Scheduler = (*kubernetes)(nil)

// Validate implements the registry's check.
func (k *kubernetes) Validate() error {
	for claim, path := range k.Volumes {
		if !strings.HasPrefix(path, "/") {
			return fmt.Errorf("volumes: the claim %s is at %q, which is no absolute path", claim, path)
		}
	}
	return nil
}

// Reach implements Launcher.
func (k *kubernetes) Reach() string {
	if k.Host != "" {
		return k.Host
	}
	return ownAddress(cmp.Or(os.Getenv("KUBERNETES_SERVICE_HOST"), "203.0.113.1"))
}

// Tools returns the commands whose versions trinity doctor reports.
func (*kubernetes) Tools() [][]string { return [][]string{{"kubectl", "version", "--client"}} }

// Describe implements Launcher.
func (k *kubernetes) Describe() string {
	return "Jobs of Kubernetes, namespace " + cmp.Or(k.Namespace, "of kubectl's context") + ", image " + k.Image
}

// GPUs implements Launcher: few users may read the cluster's nodes.
func (*kubernetes) GPUs() (int, error) { return 0, nil }

// Render implements Launcher.
func (k *kubernetes) Render(g trinity.ProcessGroup) (string, error) {
	job, rest, err := k.manifests(k.group(g), "")
	if err != nil {
		return "", err
	}
	return preview(job, rest)
}

// group describes the pods of a group.
func (k *kubernetes) group(g trinity.ProcessGroup) pods {
	return pods{ProcessGroup: g, run: k.run, job: k.run + "-" + g.Name}
}

// Launch implements Launcher. Each start gives its Job a new name, because the Job of an earlier
// start may exist until its lost node comes back.
func (k *kubernetes) Launch(ctx context.Context, g trinity.ProcessGroup) (Launched, error) {
	p := k.group(g)
	p.job += "-" + strings.ToLower(rand.Text()[:4])
	if err := k.create(ctx, p); err != nil {
		return nil, err
	}
	return &launchedJob{k, p}, nil
}

// create creates a Job and then all that its pods wait for, which Kubernetes removes with it. The end
// of ctx does not interrupt it: a Job whose creation nobody has seen has nobody who ends it.
func (k *kubernetes) create(ctx context.Context, p pods) error {
	job, _, err := k.manifests(p, "")
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // kubectl has a limit of time
	uid, err := k.apply(ctx, []manifest{job}, "-o", "jsonpath={.metadata.uid}")
	if err == nil {
		var rest []manifest
		if _, rest, err = k.manifests(p, strings.TrimSpace(uid)); err == nil {
			_, err = k.apply(ctx, rest)
		}
	}
	if err == nil {
		return nil
	}
	// An error does not say that no Job is there: its name is this one's alone.
	left := k.remove(ctx, labelGroup+"="+p.job)
	if left != nil && left.Error() != err.Error() && !(isUnreachable(left) && isUnreachable(err)) {
		err = fmt.Errorf("%w; removing what was created: %w", err, left)
	}
	return err
}

func (k *kubernetes) apply(ctx context.Context, all []manifest, args ...string) (string, error) {
	text, err := asYAML(all)
	if err != nil {
		return "", err
	}
	return tool(ctx, []byte(text), k.kubectl(append([]string{"create", "-f", "-"}, args...)...)...)
}

// remove deletes the Jobs with a label, and waits until their pods are gone.
func (k *kubernetes) remove(ctx context.Context, selector string) error {
	command := k.kubectl("delete", "job", "--selector", selector, "--cascade=foreground", "--wait", "--ignore-not-found")
	_, err := patientTool(ctx, podsEnd, nil, command...)
	return err
}

// podsEnd is the time for pods to end, which a driver's checkpoint may need.
const podsEnd = 5 * time.Minute

// kubectl returns a command of kubectl.
func (k *kubernetes) kubectl(args ...string) []string {
	command := []string{"kubectl"}
	if k.Context != "" && os.Getenv(podRun) == "" {
		command = append(command, "--context", k.Context)
	}
	if k.Namespace != "" {
		command = append(command, "--namespace", k.Namespace)
	}
	return append(command, args...)
}

// launchedJob is a group that runs as a Job.
type launchedJob struct {
	k *kubernetes
	p pods
}

// Wait implements Launched.
func (x *launchedJob) Wait(ctx context.Context) error { return x.k.watch(x.p.job).success(ctx) }

// Stop implements Launched.
func (x *launchedJob) Stop(ctx context.Context) error { return x.k.remove(ctx, labelGroup+"="+x.p.job) }

// Logs implements Launched: also why pods have not begun.
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
	return stream(ctx, w, x.k.kubectl("logs", "--selector", labelGroup+"="+x.p.job, "--prefix", "--tail=-1", "--ignore-errors",
		"--max-log-requests=1000")...)
}

// watch asks for the state of a Job.
func (k *kubernetes) watch(job string) *watch {
	ask := func(ctx context.Context) (jobState, error) { return k.state(ctx, job) }
	return &watch{"the Job " + job, k.every, ask}
}

var unreachable = regexp.MustCompile(`connection to the server \S+ was refused|Unable to connect to the server|dial tcp`)

// isUnreachable reports whether an error of kubectl says that it did not reach the cluster.
func isUnreachable(err error) bool { return unreachable.MatchString(err.Error()) }

var notFound = regexp.MustCompile(`\bNotFound\b`)

// state asks for the state of a Job. Its words are "" while the Job has not ended.
func (k *kubernetes) state(ctx context.Context, job string) (jobState, error) {
	out, err := tool(ctx, nil, k.kubectl("get", "job", job, "-o", "json")...)
	if err != nil && notFound.MatchString(err.Error()) {
		return jobState{"deleted, or no longer kept by Kubernetes", true, true}, nil
	}
	if err != nil {
		return jobState{}, err
	}
	var j struct {
		Status struct {
			Conditions []struct{ Type, Status, Reason, Message string }
		}
	}
	if err := json.Unmarshal([]byte(out), &j); err != nil {
		return jobState{}, fmt.Errorf("kubectl get job: %w", err)
	}
	for _, c := range j.Status.Conditions {
		if c.Status == "True" && (c.Type == "Complete" || c.Type == "Failed") {
			why := strings.Trim(c.Reason+": "+c.Message, ": ")
			return jobState{strings.Trim(c.Type+": "+why, ": "), true, c.Type == "Failed"}, nil
		}
	}
	return jobState{}, nil
}
