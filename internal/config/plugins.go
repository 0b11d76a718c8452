package config

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/tags"
	"github.com/trinity-go/trinity/registry"
)

// findPlugins looks up every plug-in that the configuration names, and checks the arguments for
// it.
func (s *Settled) findPlugins(r report) {
	p := pluginCheck{r, map[string]bool{}, s.Plugin}
	if s.Explores || s.Trains {
		findAlgorithm(p, &s.Algorithm, &s.Method)
	}
	for _, t := range s.Data.Tasksets {
		findTaskset(p, &s.Buffer, &s.Cod, s.Work, t)
	}
	if s.ReadsDataset {
		p.selector(&s.Buffer.TrainerInput.ExperienceBuffer.DataSelector, storeKey+".data_selector")
	}
	if r := &s.Buffer.TrainerInput.ExperienceBuffer.ReplayBuffer; r.Enable {
		p.named("priority_fn", r.PriorityFn, replayKey+".priority_fn", r.PriorityFnArgs, replayKey+".priority_fn_args")
	}
	for _, b := range slices.Concat(s.Data.Auxiliary, s.Data.Inputs) {
		p.selector(&b.DataSelector, b.Key+".data_selector")
	}
	for i, o := range s.DataProcessor.ExperiencePipeline.Operators {
		key := pipelineKey + ".operators." + digits(i)
		p.named("operator", o.Name, key+".name", o.Args, key+".args")
		if o.Name == "" {
			p.fail(key, "the operator has no name", "")
		}
	}
	findEngines(p, &s.Engines, &s.Explorer, &s.Trainer, s.Work)
	findLauncher(p, &s.Cluster, &s.Engines)
	findTaskOperators(p, s.TaskPipeline, &s.Service)
	findMonitors(p, &s.Monitor)
	s.findRest(p, s.Work)
	for _, hidden := range s.Python.In(filepath.Dir(s.File())).Hidden() {
		p.warn("python.plugin_dirs", "the %s of a module is not asked, because a built-in one has its name: python:NAME asks for it", hidden)
	}
}

type pluginCheck struct {
	report
	seen   map[string]bool // keys of names that were looked up
	plugin pluginOf
}

// pluginOf returns the plug-in of a kind that a name stands for, and its arguments.
type pluginOf func(kind *registry.Catalog, name string, args map[string]any) (plugin string, all map[string]any)

// Plugin returns the plug-in of a kind that a name of the configuration stands for, and its arguments. A workflow of users
// gets all models of explorer.auxiliary_models, unless its arguments say which.
func (c *Config) Plugin(kind *registry.Catalog, name string, args map[string]any) (plugin string, all map[string]any) {
	plugin, all = c.Python.Resolve(kind, filepath.Dir(c.File()), name, args)
	const key = "auxiliary_models"
	if models := c.Explorer.AuxiliaryModels; plugin != name && kind == registry.Workflows.Catalog && all[key] == nil && len(models) > 0 {
		var names []any
		for i := range models {
			names = append(names, cmp.Or(models[i].Name, digits(i)))
		}
		all[key] = names
	}
	return plugin, all
}

// findAlgorithm checks the algorithm type, its parts and their arguments.
func findAlgorithm(p pluginCheck, algorithm *Algorithm, method *Method) {
	s, key := algorithm, "algorithm.algorithm_type"
	changes := s.changes()
	parts, err := &changes, method.unknown
	switch plugin, _ := p.plugin(registry.Algorithms.Catalog, s.AlgorithmType, nil); {
	case err == nil:
		parts = registry.PartsOf(method.own, changes)
	case plugin != s.AlgorithmType:
		p.fail(key, err.Error(), "")
	default:
		p.named("algorithm", s.AlgorithmType, key, nil, "")
	}
	check := func(kind, key, name string, args, given map[string]any) {
		key = "algorithm." + key
		if name == "" && len(given) > 0 && err == nil {
			p.add(p.errorFor(key+"_args", fmt.Sprintf("%s has no %s", s.AlgorithmType, lastKey(key)), "remove the arguments"))
			return
		}
		p.named(kind, name, key, args, key+"_args")
	}
	check("advantage_fn", "advantage_fn", parts.Advantage, parts.AdvantageArgs, changes.AdvantageArgs)
	check("policy_loss_fn", "policy_loss_fn", parts.PolicyLoss, parts.PolicyLossArgs, changes.PolicyLossArgs)
	check("kl_fn", "kl_penalty_fn", parts.KLPenalty, parts.KLPenaltyArgs, changes.KLPenaltyArgs)
	check("kl_fn", "kl_loss_fn", parts.KLLoss, parts.KLLossArgs, changes.KLLossArgs)
	check("entropy_loss_fn", "entropy_loss_fn", parts.Entropy, parts.EntropyArgs, changes.EntropyArgs)
	check("sample_strategy", "sample_strategy", parts.SampleStrategy, parts.SampleStrategyArgs, changes.SampleStrategyArgs)
}

// findTaskset checks the plug-ins of a taskset.
func findTaskset(p pluginCheck, buffer *Buffer, cod *Cod, w Work, t TasksetEntry) {
	workflow, reward := t.Key+".default_workflow_type", t.Key+".default_reward_fn_type"
	in := buffer.ExplorerInput
	if !p.IsSet(workflow) {
		workflow = "buffer.explorer_input.default_workflow_type"
		if t.Eval && in.DefaultEvalWorkflowType != in.DefaultWorkflowType {
			workflow = "buffer.explorer_input.default_eval_workflow_type"
		}
	}
	if !p.IsSet(reward) {
		reward = "buffer.explorer_input.default_reward_fn_type"
	}
	if t.Eval || w.Explores {
		before := len(*p.errs)
		p.named("workflow", t.DefaultWorkflowType, workflow, cod.ArgsOfWorkflow(t), t.Key+".workflow_args")
		p.placePackErrors(t, before)
		p.warnOfGroups(t.DefaultWorkflowType, workflow, cod.ArgsOfWorkflow(t))
		p.named("reward_fn", t.DefaultRewardFnType, reward, t.RewardFnArgs, t.Key+".reward_fn_args")
		p.selector(&t.DataSelector, t.Key+".data_selector")
	}
}

// warnOfGroups warns of a class that may compare the rollouts of a task, and gets them one by one.
func (p pluginCheck) warnOfGroups(name, key string, args map[string]any) {
	plugin, all := p.plugin(registry.Workflows.Catalog, name, args)
	w, err := registry.Workflows.Build(plugin, all)
	if one, ok := w.(interface{ MayCompare() bool }); err == nil && ok && one.MayCompare() {
		p.warn(key, "%s can repeat and has auxiliary models, so it may compare the rollouts of a task, and gets them one by one: "+
			"group: true in workflow_args gives it all of them", name)
	}
}

// placed returns an error in the arguments of a plug-in that a name stands for, at the key that the file has: the name's,
// or that of an argument. It returns false for one of the section that the name's plug-in gets, whose own check reports
// it.
func (p pluginCheck) placed(e registry.ArgError, of *registry.Catalog, plugin, name, nameKey, argsKey string) (Error, bool) {
	arg, isArg := strings.CutPrefix(e.Key, "args.")
	switch own := tags.Join(argsKey, e.Key); {
	case isArg:
		return p.errorFor(tags.Join(argsKey, arg), e.Message, e.Hint), true
	case e.Key == "args":
		return p.errorFor(argsKey, e.Message, e.Hint), true
	case strings.HasPrefix(e.Key, plugin+"."):
		return p.errorFor(own, e.Message, e.Hint), p.IsSet(own)
	case e.Key != "" && p.IsSet(own):
		if e.Hint == "" && strings.HasPrefix(e.Message, "wants ") {
			e.Hint = fmt.Sprintf("it is of the plug-in %s itself; %s: %s, with class and args in %s, gives the class its own argument %s",
				plugin, lastKey(nameKey), plugin, lastKey(argsKey), e.Key)
		}
		return p.errorFor(own, e.Message, e.Hint), true
	}
	if e.Hint == "" {
		e.Hint = substitutes[of.Kind][name]
	}
	if near := nearestPlugin(name, of.Names()); near != "" && e.Hint == "" && !strings.ContainsAny(name, ".:") {
		e.Hint = fmt.Sprintf("did you mean %q?", near)
	}
	return p.errorFor(nameKey, e.Message, e.Hint), true
}

// selector checks a selector with its arguments.
func (p pluginCheck) selector(s *DataSelector, key string) {
	before := len(*p.errs)
	p.named("selector", s.SelectorType, key+".selector_type", s.Args(), key+".kwargs")
	for i := before; i < len(*p.errs); i++ {
		if lastKey((*p.errs)[i].Key) == "feature_keys" {
			e := (*p.errs)[i]
			(*p.errs)[i] = p.errorFor(key+".feature_keys", e.Message, e.Hint)
		}
	}
}

// findMonitors checks the monitors and their arguments. One monitor takes monitor_args itself; several
// take one section of it each.
func findMonitors(p pluginCheck, monitor *Monitor) {
	names, args := monitor.MonitorType, maps.Clone(monitor.MonitorArgs)
	if catalog, ok := registry.Find("monitor"); ok && len(names) == 1 {
		for _, name := range slices.Sorted(maps.Keys(args)) {
			if catalog.Has(name) {
				delete(args, name)
				p.fail("monitor.monitor_args."+name, "is a section, which only several monitors have",
					"monitor_args itself takes the arguments of "+names[0]+": remove the section")
			}
		}
	}
	for i, name := range names {
		key, argsKey := "monitor.monitor_type", "monitor.monitor_args"
		if p.IsSet(key + "." + digits(i)) {
			key += "." + digits(i)
		}
		own := args
		if len(names) > 1 {
			own, _ = args[name].(map[string]any)
			argsKey += "." + name
		}
		p.named("monitor", name, key, own, argsKey)
	}
	if len(names) < 2 {
		return
	}
	for name := range args {
		if !slices.Contains(names, name) {
			p.fail("monitor.monitor_args."+name, "is not one of the monitors",
				"with several monitors, monitor_args has one section for each: "+strings.Join(names, ", "))
		}
	}
}

// findRest looks up names that no workflow uses, such as a default that no taskset takes.
func (c *Config) findRest(p pluginCheck, w Work) {
	tags.Walk(valueOf(c), "", func(_, v reflect.Value, f reflect.StructField, key string) {
		kind := f.Tag.Get("plugin")
		_, isEnum := f.Tag.Lookup("enum") // which checkValues holds against the plug-ins as well
		if kind != "" && !isEnum && v.Kind() == reflect.String && p.IsSet(key) && p.reached(w, key) {
			p.named(kind, v.String(), key, nil, "")
		}
	})
}

// named checks a name at its key, and its arguments at their key. It accepts a default if this
// program does not have that kind of plug-in.
func (p pluginCheck) named(kind, name, key string, args map[string]any, argsKey string) {
	if name == "" {
		return
	}
	catalog, ok := registry.Find(kind)
	if !ok && !p.IsSet(key) {
		return
	}
	plugin, all := name, args
	if ok {
		plugin, all = p.plugin(catalog, name, args)
	}
	if plugin != name && argsKey == "" { // it is checked with its arguments, where they are read
		return
	}
	if !ok || !catalog.Has(plugin) {
		if !p.seen[key+"="+name] {
			p.seen[key+"="+name] = true
			p.add(p.missing(kind, name, key, catalog))
		}
		return
	}
	p.seen[key+"="+name] = true
	if argsKey == "" {
		return
	}
	for _, e := range catalog.Check(plugin, all) {
		if plugin != name {
			if moved, ok := p.placed(e, catalog, plugin, name, key, argsKey); ok {
				p.add(moved)
			}
			continue
		}
		at := argsKey
		if e.Key != "" {
			at = tags.Join(argsKey, e.Key)
		}
		if now := removedArgs[kind][e.Key]; now != "" {
			e.Hint = now
		}
		p.fail(at, e.Message, e.Hint)
	}
}

// missing returns the error for a name that is not registered: it is unknown, or upstream has it
// and this version does not.
func (p pluginCheck) missing(kind, name, key string, catalog *registry.Catalog) Error {
	what := strings.NewReplacer("_fn", " function", "_", " ").Replace(kind)
	e := p.errorFor(key, "", "")
	var names []string
	if catalog != nil {
		names = catalog.Names()
	}
	switch {
	case removedNames[kind][name] != "":
		e.Message, e.Hint = fmt.Sprintf("the %s %q is one of older versions", what, name), removedNames[kind][name]
		return e
	case kind == "sample_strategy" && strings.ContainsAny(name, ".:"):
		e.Message = "python: " + name + ": sample strategies read buffers themselves, which this version does not offer to Python"
		e.Hint, e.Unsupported = "use staleness_control or mix", true
		return e
	case strings.ContainsAny(name, ".:"):
		e.Message, e.Hint = fmt.Sprintf("%q is no %s of this program, which has no plug-in for Python ones", name, what), substitutes[kind][name]
		e.Unsupported = true
		return e
	case slices.Contains(upstream[kind], name), substitutes[kind][name] != "":
		e.Message, e.Unsupported = fmt.Sprintf("the %s %q is not built into this version", what, name), true
		if e.Hint = substitutes[kind][name]; e.Hint != "" {
			return e
		}
	default:
		e.Message = fmt.Sprintf("unknown %s %q", what, name)
		if near := nearestPlugin(name, append(slices.Clone(names), upstream[kind]...)); near != "" {
			e.Hint = fmt.Sprintf("did you mean %q?", near)
			return e
		}
	}
	switch {
	case e.Unsupported && (kind == "trainer" || kind == "sampler"):
		e.Hint = engineHint(kind)
	case kind == "monitor":
		e.Hint = "use one or several of " + strings.Join(names, ", ")
	case len(names) > 0:
		e.Hint = "known: " + strings.Join(names, ", ")
	}
	if catalog == nil {
		return e
	}
	switch foreign, _ := p.plugin(catalog, "a.b", nil); {
	case foreign == "a.b": // no plug-in of this kind is written in Python
	case e.Unsupported:
		e.Hint += fmt.Sprintf("; %s:%s is that of an installed trinity-rft", foreign, name)
	default:
		e.Hint += fmt.Sprintf("; one of yours in Python has its module before it, my_module.%[1]s, or its file, my_module.py:%[1]s, "+
			"or a module of python.plugin_dirs registers it", name)
	}
	return e
}

// nearestPlugin returns the name that a user probably meant, "" if there is none. The ending that
// names of a kind share makes no two names similar: my_workflow is another one than math_workflow.
func nearestPlugin(name string, names []string) string {
	for _, end := range []string{"_workflow", "_reward"} {
		own, ok := strings.CutSuffix(name, end)
		if !ok {
			continue
		}
		var others []string
		for _, n := range names {
			if other, ok := strings.CutSuffix(n, end); ok {
				others = append(others, other)
			}
		}
		if near := nearest(own, others); near != "" {
			return near + end
		}
		return ""
	}
	return nearest(name, names)
}

// reached reports whether the run reads a key at all. An algorithm's parts matter only if it runs,
// and stages are checked separately.
func (p pluginCheck) reached(w Work, key string) bool {
	switch {
	case strings.HasPrefix(key, "algorithm."):
		return w.Explores || w.Trains
	case key == trainerTypeKey, key == engineTypeKey, key == launcherKey, below(key, auxiliaryModelsKey):
		return false // engines that nothing opens, and teachers, which have rules of their own
	}
	return !strings.HasPrefix(key, "stages.")
}
