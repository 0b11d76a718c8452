package examples

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity/trinitytest"
)

// smolLM2Name is what the loops call the model. The SDK opens its tokenizer in a folder of that name.
const smolLM2Name = "HuggingFaceTB/SmolLM2-135M-Instruct"

// tinkerPlace is a folder in which loops over the SDK of Tinker run, with a program that serves SmolLM2.
type tinkerPlace struct{ dir, python, program string }

// newTinkerPlace makes one for the Python that a variable names, which has some modules beside tinker.
func newTinkerPlace(t *testing.T, variable string, modules ...string) tinkerPlace {
	t.Helper()
	model := smolLM2(t)
	p := tinkerPlace{t.TempDir(), trinitytest.Python(t, variable, append(modules, "tinker")...), ""}
	t.Chdir("..")
	p.program = filepath.Join(p.dir, "trinity")
	for _, args := range [][]string{
		{"go", "build", "-o", p.program, "./cmd/trinity"}, {p.program, "convert", model, "--output", filepath.Join(p.dir, smolLM2Name)},
	} {
		if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", args, err, out)
		}
	}
	return p
}

// serve starts a service of a model at an address, and returns when it answers. kill ends it at once.
func (p tinkerPlace) serve(t *testing.T, model, dir, address string) (kill func()) {
	longest := "512"
	if model == cookbookName {
		longest = "2048" // it is tiny
	}
	t.Helper()
	ctx, end := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, p.program, "service", "--dir", dir, "--model", model, "--max-model-len", longest, "--addr", address)
	cmd.Dir = p.dir
	said, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines, serves := bufio.NewScanner(said), make(chan bool, 1)
	go func() {
		for lines.Scan() {
			t.Log(lines.Text())
			if strings.HasPrefix(lines.Text(), "serves at") {
				serves <- true
			}
		}
		close(serves)
		_ = cmd.Wait() // it was killed
	}()
	kill = func() {
		end()
		for range serves {
		}
	}
	t.Cleanup(kill)
	select {
	case ok := <-serves:
		if !ok {
			t.Fatal("the service ended")
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("the service does not begin")
	}
	return kill
}

// client returns a Python that is a client of the service at an address.
func (p tinkerPlace) client(ctx context.Context, address string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.python, args...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "TINKER_BASE_URL=http://"+address, "TINKER_API_KEY=tml-local", "HF_HUB_OFFLINE=1", "TINKER_TELEMETRY=0")
	return cmd
}

// loop runs an example against the service at an address, and returns what it prints. each receives the lines.
func (p tinkerPlace) loop(t *testing.T, name, address string, steps int, each func(line string)) []string {
	t.Helper()
	script, err := filepath.Abs(filepath.Join("examples/tinker", name))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := p.client(ctx, address, script)
	cmd.Env = append(cmd.Env, fmt.Sprint("STEPS=", steps))
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for scan := bufio.NewScanner(out); scan.Scan(); {
		lines = append(lines, scan.Text())
		each(scan.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, problems.String())
	}
	return lines
}

// freeAddress is a loopback address at which nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

var rightShare = regexp.MustCompile(`^step \d+: ([0-9.]+) right$`)

// The loop of sums learns, and a service that is killed and started again under it ends with the same bytes.
func TestTinkerSums(t *testing.T) {
	p := newTinkerPlace(t, "TRINITY_TINKER_PYTHON")
	const steps = 10
	adapter := map[bool][]byte{}
	for _, killed := range []bool{false, true} {
		address, dir := freeAddress(t), filepath.Join(p.dir, fmt.Sprint("killed-", killed))
		kill := p.serve(t, smolLM2Name, dir, address)
		var right []float64
		lines := p.loop(t, "sums.py", address, steps, func(line string) {
			if m := rightShare.FindStringSubmatch(line); m != nil {
				v, err := strconv.ParseFloat(m[1], 64)
				if err != nil {
					t.Error(err)
				}
				right = append(right, v)
			}
			if killed && strings.HasPrefix(line, "step 4:") {
				kill()
				kill = p.serve(t, smolLM2Name, dir, address)
			}
		})
		kill()
		if t.Logf("right %.2f", right); len(right) != steps || mean(right[:2]) > 0.2 || mean(right[steps-2:]) < 0.5 {
			t.Errorf("the share of right sums went as %.2f, want at most 0.2 at first and at least 0.5 in the end", right)
		}
		last := strings.ReplaceAll(strings.TrimPrefix(lines[len(lines)-1], "tinker://"), ":", "_")
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(last), "adapter_model.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		adapter[killed] = data
	}
	if !bytes.Equal(adapter[false], adapter[true]) {
		t.Error("the adapter of the killed service has other bytes")
	}
}

// The other loops end with what they teach.
func TestTinkerLoops(t *testing.T) {
	p, address := newTinkerPlace(t, "TRINITY_TINKER_PYTHON"), freeAddress(t)
	p.serve(t, smolLM2Name, filepath.Join(p.dir, "service"), address)
	for name, want := range map[string]string{"sft.py": "The capital of Zorbland is Quix.", "tenants.py": "'Zorbland has no capital.': 4"} {
		out := strings.Join(p.loop(t, name, address, 20, func(string) {}), "\n")
		if !strings.Contains(out, want) {
			t.Errorf("%s printed %s, want %q in it", name, out, want)
		}
	}
}
