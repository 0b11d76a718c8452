package config

import (
	"fmt"
	"net/url"
	"path/filepath"
	"slices"

	"github.com/trinity-go/trinity/operator/datajuicer"
	"github.com/trinity-go/trinity/registry"
)

const taskPipelineKey = "data_processor.task_pipeline"

// prepared returns a pointer to the path that the task pipeline writes if its output names none:
// the path of the first taskset, or of an offline algorithm's dataset.
func (s *Settled) prepared() *string {
	if s.Offline {
		return &s.Buffer.TrainerInput.ExperienceBuffer.Path
	}
	for _, t := range s.Data.Tasksets {
		if !t.Eval {
			return &t.Path
		}
	}
	return nil
}

// taskPipeline gives the pipeline's output and its reader the same path, if only one of them has a
// path.
func (r *resolution) taskPipeline() {
	if r.Explores || r.Mode == "train" && r.Offline {
		r.Settled.TaskPipeline = r.DataProcessor.TaskPipeline
	}
	p, path := r.TaskPipeline, r.prepared()
	if p == nil || path == nil {
		return
	}
	if p.Output == nil {
		p.Output = newDefault[ExperienceBuffer]()
	}
	setDefault(&p.Output.Path, *path)
	setDefault(path, p.Output.Path)
	if !r.reads(p.Output.Path) {
		r.warn(taskPipelineKey+".output.path", "this run does not read %s, but %s", p.Output.Path, *path)
	}
}

// reads reports whether the run reads the file that the task pipeline makes, or the directory of
// that file.
func (r *resolution) reads(made string) bool {
	paths := []string{r.Buffer.TrainerInput.ExperienceBuffer.Path}
	if !r.Offline {
		paths = nil
		for _, t := range r.Data.Tasksets {
			paths = append(paths, t.Path)
		}
	}
	return slices.ContainsFunc(paths, func(path string) bool {
		path = filepath.Clean(path)
		return path == filepath.Clean(made) || path == filepath.Dir(made)
	})
}

// HasService reports whether the file configures a Data-Juicer service.
func (d *DataJuicer) HasService() bool { return d.ServerURL != "" || d.AutoStart }

// service checks the address of the Data-Juicer service, and that operators that need the service
// have one.
func (r *rules) service() {
	d := &r.Service.DataJuicer
	if u, err := url.Parse(d.ServerURL); d.ServerURL != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		r.fail("service.data_juicer.server_url", fmt.Sprintf("is %q, want http://host:port", d.ServerURL), "")
	}
	for i, o := range r.DataProcessor.ExperiencePipeline.Operators {
		if _, needs := registry.Operators.Default(o.Name).(datajuicer.User); needs && !d.HasService() && r.Explores {
			r.fail("data_processor.experience_pipeline.operators."+digits(i)+".name", "there is no Data-Juicer service",
				"set service.data_juicer.server_url or auto_start")
		}
	}
}

// taskPipeline checks the operators, inputs and output of the task pipeline.
func (r *rules) taskPipeline() {
	p := r.TaskPipeline
	switch {
	case p == nil || p.Output == nil: // nothing to make, or nothing that would read it, which is said elsewhere
		return
	case p.ConfigPath == "" && len(p.Operators) == 0:
		r.fail(taskPipelineKey, "it has no operators", "set operators, or config_path to a recipe of Data-Juicer")
	case p.ConfigPath != "" && len(p.Operators) > 0:
		r.fail(taskPipelineKey+".operators", "config_path is set as well", "use one of the two")
	case p.ConfigPath == "" && len(p.Inputs) == 0:
		r.fail(taskPipelineKey+".inputs", "there are no files to read", "list files")
	case p.TopK == 0:
		r.fail(taskPipelineKey+".top_k", "is 0, which leaves nothing", "set it to a number of rows, or to -1 for all")
	case slices.Contains(p.Inputs, p.Output.Path):
		r.fail(taskPipelineKey+".inputs", fmt.Sprintf("%s is the output as well", p.Output.Path),
			"set output.path, or the path of the taskset, to a file that is to be made")
	}
}

// taskOperators looks up the operators of the task pipeline. Data-Juicer gets those that this
// program does not have.
func (p *pluginCheck) taskOperators() {
	pipeline := p.TaskPipeline
	if pipeline == nil {
		return
	}
	for i, o := range pipeline.Operators {
		key := taskPipelineKey + ".operators." + digits(i)
		switch {
		case o.Name == "":
			p.errs = append(p.errs, p.errorFor(key, "the operator has no name", ""))
		case registry.TaskOperators.Has(o.Name):
			p.named("task_operator", o.Name, key+".name", o.Args, key+".args")
		case !p.Service.DataJuicer.HasService():
			p.errs = append(p.errs, p.foreign(key+".name", o.Name))
		}
	}
}

// foreign returns the error for an operator that is not built in while there is no Data-Juicer.
func (c *Config) foreign(key, name string) Error {
	known := registry.TaskOperators.Names()
	if near := nearest(name, known); near != "" {
		return c.errorFor(key, fmt.Sprintf("unknown task operator %q", name), fmt.Sprintf("did you mean %q?", near))
	}
	return c.errorFor(key, fmt.Sprintf("the task operator %q is not built in", name),
		"if Data-Juicer has it, set service.data_juicer.server_url or auto_start")
}
