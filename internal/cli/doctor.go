package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/run/place"
	"github.com/trinity-go/trinity/internal/sandbox"
	"github.com/trinity-go/trinity/registry"
)

// checkup is the report of doctor.
type checkup struct {
	Platform  string            `json:"platform"`
	Cores     int               `json:"cores"`
	Memory    uint64            `json:"memory_bytes"`
	Available uint64            `json:"memory_available_bytes"`
	Disk      uint64            `json:"disk_free_bytes"`
	HugePages string            `json:"huge_pages"`
	Engines   map[string]string `json:"engines"`
	Python    string            `json:"python"`
	Packages  []program         `json:"packages"` // of Python, for engines and launchers
	Tools     []program         `json:"tools"`    // of launchers
	GPU       string            `json:"gpu"`
	Sandbox   []sandbox.Layer   `json:"sandbox"`
}

func doctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Report what this machine has: kernels with measured speed, cores, memory, disk, Python, GPU, layers of the sandbox",
		Args:  wantArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := examine(cmd)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(c)
			}
			c.print(cmd.OutOrStdout())
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func examine(cmd *cobra.Command) (*checkup, error) {
	m := place.Machine()
	c := &checkup{
		Platform: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.GOMAXPROCS(0),
		Memory: m.Memory, Available: m.Available, Disk: m.Disk, HugePages: "unknown", Engines: map[string]string{},
	}
	if data, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled"); err == nil {
		c.HugePages = strings.TrimSpace(string(data))
	}
	for _, name := range registry.Trainers.Names() {
		c.Engines[name] = registry.Trainers.Default(name).(engine.TrainerOpener).Describe()
	}
	for _, name := range registry.Samplers.Names() {
		if _, described := c.Engines[name]; described {
			continue // one engine registers a trainer and a sampler
		}
		c.Engines[name] = registry.Samplers.Default(name).(engine.SamplerOpener).Describe()
	}
	c.Python = output(cmd, "python3", "--version")
	c.Packages, c.Tools = findPrograms(cmd)
	c.GPU = output(cmd, "nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader")
	c.Sandbox = sandbox.Layers()
	return c, nil
}

// output returns what a program prints, or "none" if it is missing or fails.
func output(cmd *cobra.Command, name string, args ...string) string {
	c := exec.CommandContext(cmd.Context(), name, args...)
	c.WaitDelay = time.Second
	out, err := c.Output()
	if err != nil {
		return "none"
	}
	return strings.TrimSpace(string(out))
}

func (c *checkup) print(w io.Writer) {
	const gib = 1 << 30
	fmt.Fprintf(w, "platform    %s, %d cores\n", c.Platform, c.Cores)
	fmt.Fprintf(w, "memory      %.1f GiB, %.1f GiB available\n", float64(c.Memory)/gib, float64(c.Available)/gib)
	fmt.Fprintf(w, "disk        %.1f GiB free here\n", float64(c.Disk)/gib)
	fmt.Fprintf(w, "huge pages  %s\n", c.HugePages)
	for _, name := range slices.Sorted(maps.Keys(c.Engines)) {
		fmt.Fprintf(w, "engine %s  %s\n", name, strings.ReplaceAll(c.Engines[name], "\n", "\n            "))
	}
	fmt.Fprintf(w, "python      %s\n", c.Python)
	printPrograms(w, append(c.Packages, c.Tools...))
	fmt.Fprintf(w, "gpu         %s\n", c.GPU)
	for _, l := range c.Sandbox {
		works := "works"
		if !l.Works {
			works = "does not work"
		}
		fmt.Fprintf(w, "sandbox     %s %s (%s): %s\n", l.Name, works, l.Note, l.Gives)
	}
}
