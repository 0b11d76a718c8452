package workflow

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	const name = "cod_random_alchemy_workflow"
	registry.Workflows.Register(name,
		"Connect-the-Dots on recipes that are unknown, and with scope per_pack the same in all tasks of a pack: the policy combines elements "+
			"until it has made the wanted one. A row has a seed.",
		func() trinity.Workflow {
			return &packAlchemy{packPlay: packOf(name), alchemyArgs: alchemyArgs{MaxRounds: 15, ShowTiers: true, Material: "unlimited",
				Scope: "per_task", MinTiers: 3, MaxTiers: 4, MinBase: 10, MaxBase: 15}}
		})
}

// packAlchemy finds recipes.
type packAlchemy struct {
	packPlay    `yaml:",inline"`
	alchemyArgs `yaml:",inline"`
	ShowStruct  bool `yaml:"show_structure" doc:"no effect: recipes themselves can be shown"`
}

// alchemyArgs are those of the environment. It has a default for each that is null.
type alchemyArgs struct {
	MaxRounds    int      `yaml:"max_rounds" doc:"replies for a task at most"`
	ShowRecipes  bool     `yaml:"show_recipes" doc:"the policy reads all recipes"`
	ShowElements bool     `yaml:"show_elements" doc:"the policy reads all elements"`
	ShowTiers    bool     `yaml:"show_tiers" doc:"the policy reads the tier of each element"`
	Material     string   `yaml:"material_mode" doc:"unlimited, or limited: elements are used up"`
	Scope        string   `yaml:"scope" doc:"per_pack: the tasks of a pack have the same recipes; or per_task"`
	MinTiers     int      `yaml:"min_num_tiers" doc:"tiers at least"`
	MaxTiers     int      `yaml:"max_num_tiers" doc:"tiers at most"`
	MinBase      int      `yaml:"min_base_elements" doc:"elements of tier 0 at least"`
	MaxBase      int      `yaml:"max_base_elements" doc:"elements of tier 0 at most"`
	MinShrink    *float64 `yaml:"tier_shrink_min" doc:"size of a tier, as a share of the one below, at least"`
	MaxShrink    *float64 `yaml:"tier_shrink_max" doc:"the same at most"`
	MinRecipes   *int     `yaml:"min_recipes_per_element" doc:"recipes of an element at least"`
	MaxRecipes   *int     `yaml:"max_recipes_per_element" doc:"recipes of an element at most"`
	MaxGap       *int     `yaml:"max_tier_gap" doc:"tiers from an element down to what makes it, at most"`
	MinCross     *float64 `yaml:"min_cross_tier_prob" doc:"share of recipes with an element of a much lower tier, at least"`
	MaxCross     *float64 `yaml:"max_cross_tier_prob" doc:"the same at most"`
	MinDecoys    *float64 `yaml:"min_noise_node_ratio" doc:"decoys, as a share of a tier, at least"`
	MaxDecoys    *float64 `yaml:"max_noise_node_ratio" doc:"the same at most"`
	DecoyRounds  *int     `yaml:"noise_chain_depth" doc:"times that decoys are added, which may be made of earlier ones"`
	MinMaterial  *float64 `yaml:"min_material_mult" doc:"limited: what there is of each element, as a multiple of what is needed, at least"`
	MaxMaterial  *float64 `yaml:"max_material_mult" doc:"limited: the same at most"`
}

// Validate builds the environment.
func (w *packAlchemy) Validate() error {
	w.preset(argsOf(&w.alchemyArgs))
	w.MaxTurns = min(w.MaxTurns, max(1, w.MaxRounds))
	return w.packPlay.Validate()
}
