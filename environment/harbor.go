package environment

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/sandbox"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Environments.Register("harbor",
		"A task folder of Harbor: the policy solves instruction.md with the tool bash in a sandbox. The folder is the row's column path, as "+
			"tasksets of storage_type task_dir have it, or task_dir. Commands begin in the work folder, whose files last from one command to "+
			"the next; other files, variables and processes do not. A reply without a call ends the episode: then tests/test.sh verifies the "+
			"files in a new sandbox, with tests that no command has seen. Reward: that of reward.json or reward.txt; metrics: the other "+
			"values. A verifier that writes none fails the rollout. Word of the message: {instruction}.",
		func() trinity.EnvironmentOpener {
			return &harbor{MaxSteps: 30, Timeout: 30, MaxMemory: 1024, MaxDisk: 128, MaxOutput: 8000, Isolation: string(sandbox.Full),
				Workdir: "/app", Ask: "{instruction}"}
		})
}

// harbor runs task folders.
type harbor struct {
	MaxSteps    int      `yaml:"max_steps" range:"[1,)" doc:"replies at most; after the last one the task is verified"`
	Timeout     float64  `yaml:"timeout" range:"(0,86400]" doc:"seconds for a command; the verifier has those of task.toml, else 600"`
	MaxMemory   int      `yaml:"max_memory_mb" range:"[32,1048576]" doc:"MiB for a command or the verifier, if task.toml does not say it"`
	MaxDisk     int      `yaml:"max_disk_mb" range:"[1,4096]" doc:"MiB for the files of a task"`
	MaxOutput   int      `yaml:"max_output" range:"[100,)" doc:"bytes of output that the policy reads; the middle of more is left out"`
	Isolation   string   `yaml:"isolation" enum:"full|best" doc:"best needs namespaces, too"`
	Read        []string `yaml:"read" doc:"folders that commands and tests may read beside the system's"`
	Workdir     string   `yaml:"workdir" doc:"work folder, if task.toml names none"`
	RewardKey   string   `yaml:"reward_key" doc:"value of reward.json that is the reward; without it, reward or the only value"`
	IgnoreImage bool     `yaml:"ignore_image" doc:"run tasks that ask for an image with the programs of this machine"`
	PassEnv     []string `yaml:"pass_env" doc:"names of variables that tasks may read from the environment of this process"`
	Ask         string   `yaml:"ask" required:"write the message to the policy" doc:"first message to the policy"`

	box *sandbox.Sandbox
}

// Validate checks the arguments, and that this machine has the isolation.
func (h *harbor) Validate() (err error) {
	if err := sandbox.CheckRead(h.Read); err != nil {
		return err
	}
	if h.box, err = sandbox.New(sandbox.Isolation(h.Isolation)); err != nil {
		return err
	}
	if slices.Contains(h.box.Lacks(), "namespaces") {
		return fmt.Errorf("isolation %s: a task has folders of its own, which need the layer namespaces; `trinity doctor` says what is missing",
			h.Isolation)
	}
	return nil
}

// Requires implements [trinity.Requirer].
func (h *harbor) Requires() trinity.Requirements {
	return trinity.Requirements{Tools: true, CheckTask: checkBy(h.begin)}
}

// OpenEnvironment implements [trinity.EnvironmentOpener].
func (h *harbor) OpenEnvironment(_ context.Context, t *trinity.Task) (trinity.Environment, error) {
	return h.begin(t)
}

// begin reads the folder of a row.
func (h *harbor) begin(t *trinity.Task) (*harborTrial, error) {
	dir, older := "", ""
	if err := columns(t, map[string]any{"path": &dir, "task_dir": &older}); err != nil {
		return nil, err
	}
	if dir = cmp.Or(dir, older); dir == "" {
		return nil, errors.New("the row names no task folder: want storage_type: task_dir, or a column path")
	}
	task, err := readHarborTask(dir, h.IgnoreImage, h.MaxDisk<<20)
	if err != nil {
		return nil, fmt.Errorf("task %s: %w", filepath.Base(dir), err)
	}
	e := &harborTrial{args: h, task: task, dir: cmp.Or(task.settings.Environment.Workdir, h.Workdir)}
	if err := checkWorkdir(e.dir); err != nil {
		return nil, fmt.Errorf("task %s: %w", filepath.Base(dir), err)
	}
	if e.env, err = variables(task.settings.Environment.Env, h.PassEnv); err == nil {
		e.verifierEnv, err = variables(task.settings.Verifier.Env, h.PassEnv)
	}
	if err != nil {
		return nil, fmt.Errorf("task %s: %w", filepath.Base(dir), err)
	}
	return e, nil
}

// checkWorkdir returns an error unless a folder can be the work folder. One that has something of the
// verifier cannot.
func checkWorkdir(dir string) error {
	for _, own := range verifierFolders {
		if strings.HasPrefix(own+"/", dir+"/") || strings.HasPrefix(dir+"/", own+"/") {
			return fmt.Errorf("workdir: %s is the verifier's", dir)
		}
	}
	if err := sandbox.CheckFolder(dir); err != nil {
		return fmt.Errorf("workdir: %w", err)
	}
	return nil
}

// verifierFolders are the folders that only the verifier has.
var verifierFolders = []string{"/tests", "/logs/verifier"}

// harborTrial is one episode.
type harborTrial struct {
	inMemory
	args             *harbor
	task             *harborTask
	dir              string // the work folder
	env, verifierEnv []string
	files            []byte // of the work folder, as a tar archive
	replies          int
	done             string // the commands so far
}

// Scripts of the sandbox, as its first process: $1 is the work folder, $2 the seconds for the
// program $3. No process but this one is left when it looks at the files. Its standard output is
// what the sandbox is for; that of the program goes to standard error.
const (
	runHarbor = `tar -xf files.tar -C "$1" && rm files.tar || exit 1
exec 3>&1 4>/tmp/output 5</tmp/output 1>&2
if [ -f tests.tar ]; then rm -rf /tests/* /logs/verifier/* && tar -xf tests.tar -C /tests && rm tests.tar || exit 1; fi
rm /tmp/output
cd "$1"
timeout -k 2 "$2" bash "$3" </dev/null >&4 2>&4 3>&- 4>&- 5>&-
status=$?
kill -9 -1 2>/dev/null
head -c 1000000 <&5
`
	keepFiles  = runHarbor + "chmod -R u+rX \"$1\"\ntar -cf - -C \"$1\" . >&3\nexit $status" // it also keeps what nobody may read
	readReward = runHarbor + `for name in reward.json reward.txt; do
file=/logs/verifier/$name
if [ -e $file ] || [ -L $file ]; then echo $name >&3; [ -f $file ] && head -c 1000000 $file >&3; break; fi
done
exit $status`
)

// program returns the program that runs a script on the files of the work folder.
func (e *harborTrial) program(script, file string, seconds float64) *sandbox.Program {
	all := wait.Seconds(seconds) + 30*time.Second // for the files
	disk := int64(e.args.MaxDisk) << 20
	memory := cmp.Or(e.task.settings.Environment.MemoryMB, e.args.MaxMemory)
	return &sandbox.Program{
		Command: []string{"bash", "-c", script, "bash", e.dir, strconv.FormatFloat(seconds, 'f', -1, 64), file},
		Files:   map[string][]byte{"files.tar": e.files}, Folders: []string{e.dir, "/logs/agent", "/logs/artifacts"},
		Env: e.env, Read: e.args.Read,
		Limits: sandbox.Limits{Wall: all, CPU: all, Memory: int64(memory) << 20, File: disk, Disk: 2*disk + 2<<20, Output: disk},
	}
}

// Reset implements [trinity.Environment].
func (e *harborTrial) Reset(context.Context, uint64) (o trinity.Observation, err error) {
	e.files, e.replies, e.done = e.task.start, 0, ""
	o = says(e.args.Ask, "harbor", "{instruction}", e.task.instruction)
	o.Tools, err = schemas(tool{"bash", "Run a command with bash and read what it prints. Each command begins in " + e.dir + "; files there " +
		"last, variables and processes do not.", map[string]any{"command": textParameter("the command")}, []string{"command"}})
	return o, err
}

// Step implements [trinity.Environment].
func (e *harborTrial) Step(ctx context.Context, a trinity.Action) (out trinity.Outcome, err error) {
	e.replies++
	for _, call := range a.Calls {
		said, wrong, err := e.call(ctx, call)
		if err != nil {
			return out, err
		}
		out.ToolError = out.ToolError || wrong != nil
		out.Messages = append(out.Messages, answerOf(call, said, wrong))
	}
	out.State = "harbor" + e.done
	out.Done = len(a.Calls) == 0
	out.Truncated = !out.Done && e.replies == e.args.MaxSteps
	if out.Done || out.Truncated {
		err = e.verify(ctx, &out)
	}
	return out, err
}

// call runs a command of the policy; wrong says what the policy did wrong.
func (e *harborTrial) call(ctx context.Context, call trinity.ToolCall) (said string, wrong, err error) {
	if call.Name != "bash" {
		return "", noTool(call.Name, map[string]bool{"bash": true}), nil
	}
	var args struct{ Command *string }
	if json.Unmarshal(call.Arguments, &args) != nil || args.Command == nil {
		return "", errors.New(`want the argument "command", a text`), nil
	}
	e.done += "\n" + *args.Command
	program := e.program(keepFiles, "/work/command.sh", e.args.Timeout)
	program.Files["command.sh"] = []byte(*args.Command)
	r, err := runIn(ctx, e.args.box, program)
	if err != nil {
		return "", nil, err
	}
	files, said := r.Stdout, harborWords(r, e.args.MaxOutput)
	if !isArchive(files) || r.Truncated {
		return said + "\n(the changes of the command to files are lost: they cannot be read, or have more than " + strconv.Itoa(e.args.MaxDisk) +
			" MiB)", nil, nil
	}
	e.files = files
	return said, nil, nil
}

// harborWords returns what the program of a script printed, with most bytes, and how it ended.
func harborWords(r sandbox.Result, most int) string {
	r.Stdout, r.TimedOut = nil, r.TimedOut || r.ExitCode == 124 || r.ExitCode == 137 // the statuses of timeout
	return endOf(r, most)
}

// isArchive reports whether data is a whole tar archive.
func isArchive(data []byte) bool {
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		switch _, err := r.Next(); {
		case errors.Is(err, io.EOF):
			return len(data) > 0
		case err != nil:
			return false
		}
	}
}

// verify runs the tests on the files that the policy has left.
func (e *harborTrial) verify(ctx context.Context, out *trinity.Outcome) error {
	program := e.program(readReward, "/tests/test.sh", cmp.Or(e.task.settings.Verifier.TimeoutSec, 600))
	program.Files["tests.tar"] = e.task.tests
	program.Folders = append(program.Folders, verifierFolders...)
	program.Env = slices.Concat(e.env, e.verifierEnv)
	r, err := runIn(ctx, e.args.box, program)
	if err != nil {
		return err
	}
	name, text, _ := bytes.Cut(r.Stdout, []byte("\n"))
	values, err := rewardsOf(string(name), text)
	if err == nil {
		err = e.choose(values, out)
	}
	if err != nil {
		return fmt.Errorf("the verifier gives no reward: %w; tests/test.sh says: %s", err, strings.Join(strings.Fields(harborWords(r, 600)), " "))
	}
	return nil
}

// rewardsOf reads a reward file.
func rewardsOf(name string, text []byte) (map[string]float64, error) {
	values := map[string]float64{}
	switch name {
	case "":
		return nil, errors.New("there is neither /logs/verifier/reward.json nor reward.txt")
	case "reward.txt":
		v, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("reward.txt has %.40q, want a finite number", text)
		}
		values["reward"] = v
		return values, nil
	}
	var all map[string]any
	err := json.Unmarshal(text, &all)
	for name, value := range all {
		switch v := value.(type) {
		case float64:
			values[name] = v
		case bool:
			values[name] = map[bool]float64{true: 1}[v]
		default:
			err = errors.New("no number")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reward.json has %.40q, want an object of finite numbers", text)
	}
	return values, nil
}

// choose takes the reward among the verifier's values.
func (e *harborTrial) choose(values map[string]float64, out *trinity.Outcome) error {
	out.Metrics = map[string]float64{}
	for name, value := range values {
		if name == cmp.Or(e.args.RewardKey, "reward") || e.args.RewardKey == "" && len(values) == 1 {
			out.Reward = &value
		} else {
			out.Metrics[name] = value
		}
	}
	if out.Reward == nil {
		return fmt.Errorf("reward.json has no %q: set reward_key to one of its %d names", cmp.Or(e.args.RewardKey, "reward"), len(values))
	}
	return nil
}
