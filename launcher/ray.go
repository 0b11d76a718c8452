package launcher

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/python"
)

func init() {
	Launchers.Auto = append(Launchers.Auto, "ray")
	Launchers.Register("ray", "A Ray cluster: each group is a job with a placement group that has one bundle on each node. "+
		"docs/operate/cluster-ray.md says what the cluster needs.", newRay)
}

func newRay() Launcher {
	run := cmp.Or(os.Getenv(rayRun), "trinity-"+strings.ToLower(rand.Text()[:8]))
	return &rayCluster{Python: "python3", CPUs: 1, run: run, jobs: rayJobs{address: defaultDashboard}}
}

const (
	rayRun           = "TRINITY_RAY_RUN" // the name of a run that Submit has started
	rayFile          = "trinity_group.json"
	rayModule        = "trinity_worker.ray_group"
	defaultDashboard = "http://127.0.0.1:8265"
	// Seconds between the request to end and the kill, for the program and the process that watches it,
	// and for a driver, which may be writing a checkpoint.
	rayGroupEnd, rayDriverEnd = "30", "120"
)

// rayCluster starts groups as jobs of a Ray cluster.
type rayCluster struct {
	Host      string             `yaml:"host" doc:"name or address of this machine for Ray's nodes; left out is the one towards Ray"`
	Python    string             `yaml:"python" required:"name an interpreter of Ray's nodes, such as python3" doc:"of Ray's nodes, with ray"`
	CPUs      float64            `yaml:"cpus" range:"[0,inf]" doc:"CPUs that a group reserves on each of its nodes"`
	Resources map[string]float64 `yaml:"resources" doc:"other resources that a group reserves on each of its nodes"`
	Program   string             `yaml:"program" doc:"path of trinity on the head node, for a run that is sent; left out, PATH has it"`

	run  string
	jobs rayJobs

	mu     sync.Mutex
	jobsOf map[string]rayPlace // of each group that was started last
	beside []string            // groups that have no GPUs of their own
}

// rayPlace is a job with its nodes.
type rayPlace struct {
	job   string
	nodes int
}

var _ Scheduler = (*rayCluster)(nil)

// Validate implements the registry's check.
func (r *rayCluster) Validate() error {
	if r.Resources["CPU"] != 0 || r.Resources["GPU"] != 0 {
		return errors.New("resources: CPUs are the argument cpus, GPUs are cluster.gpu_per_node")
	}
	return nil
}

// ReadCluster implements config.ClusterReader.
func (r *rayCluster) ReadCluster(c *config.Cluster) error {
	text := c.RayAddress
	if text == "auto" {
		text = cmp.Or(os.Getenv("RAY_API_SERVER_ADDRESS"), os.Getenv("RAY_ADDRESS"), "auto")
	}
	address, err := dashboard(text)
	if err != nil {
		return fmt.Errorf("cluster.ray_address: %w", err)
	}
	r.jobs = newRayJobs(address)
	return nil
}

// dashboard returns the URL of Ray's dashboard, which has the Jobs API. An address of another part
// of Ray, such as 10.0.0.1:6379, names the machine.
func dashboard(text string) (string, error) {
	if text == "auto" || text == "local" {
		return defaultDashboard, nil
	}
	if u, err := url.Parse(text); err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" {
		return strings.TrimRight(text, "/"), nil
	}
	host, port, err := net.SplitHostPort(strings.TrimPrefix(text, "ray://"))
	if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || host == "" {
		return "", fmt.Errorf("%q is no address: give the dashboard's, such as %s", text, defaultDashboard)
	}
	return "http://" + net.JoinHostPort(host, "8265"), nil
}

// Reach implements Launcher.
func (r *rayCluster) Reach() string {
	if r.Host != "" {
		return r.Host
	}
	u, err := url.Parse(r.jobs.address)
	if err != nil {
		return ""
	}
	return ownAddress(u.Hostname())
}

// PythonPackage returns the package whose version trinity doctor reports.
func (*rayCluster) PythonPackage() string { return "ray" }

// Describe implements Launcher.
func (r *rayCluster) Describe() string { return "jobs of the Ray cluster at " + r.jobs.address }

// GPUs implements Launcher: of the node that has fewest, of those that have any.
func (r *rayCluster) GPUs() (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), rayQuick)
	defer cancel()
	return r.jobs.gpus(ctx)
}

// rayGroup is what trinity_worker.ray_group reads.
type rayGroup struct {
	Run       string             `json:"run"`
	Name      string             `json:"name"`   // of the job; its actors are named after it
	Driver    bool               `json:"driver"` // the command is that of a run, and has no nodes
	Nodes     int                `json:"nodes"`
	GPUs      int                `json:"gpus"`
	Resources map[string]float64 `json:"resources"` // of each node
	Beside    string             `json:"beside"`    // the job of the group beside it
	Slot      int                `json:"slot"`      // which part of the GPUs of the group beside it has
	OfNodes   int                `json:"beside_nodes"`
	Command   []string           `json:"command"`
	Env       map[string]string  `json:"env"`
	Patience  float64            `json:"patience"` // seconds until the nodes must be there

	secret map[string]string // goes another way; trinity_worker.ray_group says which
}

// rayWait is the patience of a group whose starter has no deadline.
const rayWait = time.Hour

// group returns what the job of a group runs.
func (r *rayCluster) group(id string, g trinity.ProcessGroup) rayGroup {
	resources := map[string]float64{"CPU": r.CPUs}
	maps.Copy(resources, r.Resources)
	if g.GPUs > 0 {
		resources["GPU"] = float64(g.GPUs)
	}
	env, secret := map[string]string{}, map[string]string{}
	maps.Copy(env, g.Env)
	maps.Copy(secret, g.Secret)
	x := rayGroup{Run: r.run, Name: id, Nodes: max(1, g.Nodes), GPUs: g.GPUs, Resources: resources,
		Command: g.Command, Env: env, Patience: rayWait.Seconds(), secret: secret}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.jobsOf == nil {
		r.jobsOf = map[string]rayPlace{}
	}
	r.jobsOf[g.Name] = rayPlace{id, x.Nodes}
	if g.Beside != "" {
		if !slices.Contains(r.beside, g.Name) {
			r.beside = append(r.beside, g.Name)
		}
		other := r.jobsOf[g.Beside]
		x.Slot, x.Beside, x.OfNodes = slices.Index(r.beside, g.Name), other.job, other.nodes
	}
	return x
}

// job returns the job of a group, without its files.
func (r *rayCluster) job(id string, x *rayGroup) rayJob {
	patience := rayGroupEnd
	if x.Driver {
		patience = rayDriverEnd
	}
	return rayJob{
		Entrypoint: r.Python + " -m " + rayModule, ID: id, Metadata: map[string]string{"trinity_run": x.Run},
		Runtime: rayRuntime{Env: map[string]string{"RAY_JOB_STOP_WAIT_TIME_S": patience, "RAY_COLOR_PREFIX": "0"}},
	}
}

// Render implements Launcher.
func (r *rayCluster) Render(g trinity.ProcessGroup) (string, error) {
	id := r.run + "-" + g.Name + "-…"
	x := r.group(id, g)
	place := fmt.Sprintf("%d × %s, STRICT_SPREAD", x.Nodes, amounts(x.Resources))
	if g.Beside != "" {
		place = "the nodes and GPUs of " + g.Beside
	}
	return r.rendered(id, &x, place)
}

// rendered writes a job without its secrets.
func (r *rayCluster) rendered(id string, x *rayGroup, place string) (string, error) {
	return fmt.Sprintf("job %s at %s: %s\n  on: %s\n  command: %s\n",
		id, r.jobs.address, r.job(id, x).Entrypoint, place, strings.Join(x.Command, " ")), nil
}

func amounts(resources map[string]float64) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		all = append(all, fmt.Sprintf("%s %g", name, resources[name]))
	}
	return "{" + strings.Join(all, ", ") + "}"
}

// send uploads the files of a group and submits its job.
func (r *rayCluster) send(ctx context.Context, id string, x rayGroup, files map[string][]byte) error {
	spec, err := json.Marshal(x)
	if err != nil {
		return err
	}
	packed, err := pack(files, spec)
	if err != nil {
		return err
	}
	secrets, err := json.Marshal(x.secret)
	if err != nil {
		return err
	}
	return r.jobs.submit(ctx, r.job(id, &x), packed, secrets)
}

// pack returns a zip of files, of the package trinity_worker and of the description of a group.
func pack(files map[string][]byte, spec []byte) ([]byte, error) {
	all, err := python.Files()
	if err != nil {
		return nil, err
	}
	maps.Copy(all, files)
	all[rayFile] = spec
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		header := &zip.FileHeader{Name: name, Method: zip.Deflate}
		header.SetMode(0o755) // a file may be a program
		w, err := z.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(all[name]); err != nil {
			return nil, err
		}
	}
	err = z.Close()
	return buf.Bytes(), err
}

// Launch implements Launcher. A job keeps its id for ever, so each start has another one.
func (r *rayCluster) Launch(ctx context.Context, g trinity.ProcessGroup) (Launched, error) {
	id := r.run + "-" + g.Name + "-" + strings.ToLower(rand.Text()[:8])
	x := r.group(id, g)
	if end, ok := ctx.Deadline(); ok {
		x.Patience = time.Until(end).Seconds()
	}
	if err := r.send(ctx, id, x, g.Files); err != nil {
		return nil, err
	}
	return &rayLaunched{&r.jobs, id}, nil
}

// rayLaunched is a group that runs as a job.
type rayLaunched struct {
	jobs *rayJobs
	id   string
}

// Wait implements Launched.
func (x *rayLaunched) Wait(ctx context.Context) error { return x.jobs.watch(x.id).success(ctx) }

// Stop implements Launched.
func (x *rayLaunched) Stop(ctx context.Context) error { return x.jobs.stop(ctx, x.id) }

// Logs implements Launched.
func (x *rayLaunched) Logs(ctx context.Context, w io.Writer) error {
	text, err := x.jobs.logs(ctx, x.id)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, text)
	return err
}
