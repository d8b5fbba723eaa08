package papers

import (
	"embed"
	"fmt"
	"math"
	"slices"
	"strings"
	"text/template"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/millrace/millrace/internal/tool/display"
)

// Paper is the experiments of one publication, at one scale.
type Paper struct {
	// Name is that of its command.
	Name  string `json:"name"`
	Title string `json:"title"`
	// Original says what the paper measured, and Differs what is different here.
	Original string   `json:"original"`
	Differs  []string `json:"differs"`
	// Scale is the default of --scale, with which the run takes Minutes for each server.
	Scale   float64 `json:"scale"`
	Minutes string  `json:"minutes"`

	Steps    []step        `json:"steps"`
	Sections []sectionPlan `json:"sections"`
}

// step is a bench to run.
type step struct {
	Name string `json:"name"` // of --only
	// Args are those of "millrace-lab bench", with spaces between them.
	Args string `json:"args"`
}

func (s step) words() []string { return strings.Fields(s.Args) }

// stepProvision is the step that can run the components of a cluster which has none.
const stepProvision = "provision"

// sectionPlan says what a section shows of one step.
type sectionPlan struct {
	Title string `json:"title"`
	Note  string `json:"note"`
	Step  string `json:"step"`
	// Answer, if it is not empty, is the path of the size of an answer, of which the note tells.
	Answer string      `json:"answer"`
	Rows   []rowPlan   `json:"rows"`
	Charts []chartPlan `json:"charts"`
}

// rowPlan is a figure: the sum of the values at the paths Of, without the one at Less, multiplied
// and divided.
type rowPlan struct {
	Name      string  `json:"name"`
	Unit      Unit    `json:"unit"`
	Published string  `json:"published"`
	Value     float64 `json:"value"` // Row.PublishedValue
	// Step is in place of the section's.
	Step  string   `json:"step"`
	Of    []string `json:"of"`
	Less  string   `json:"less"`
	Times float64  `json:"times"` // 0 stands for 1
	Over  float64  `json:"over"`  // 0 stands for 1
}

// chartPlan is the samples of memory at a path.
type chartPlan struct {
	Title string `json:"title"`
	Unit  Unit   `json:"unit"`
	Of    string `json:"of"`
}

// size is how much of a paper is run.
type size struct {
	scale float64
	// duration replaces how long each load lasts, and how long a server is left alone before
	// its memory is read. Zero value: as the paper says.
	duration time.Duration
}

// builtInGroupVersions is how many group versions Kubernetes 1.37 has without definitions.
const builtInGroupVersions = 23

// functions are those of the templates in data.
func (s size) functions() template.FuncMap {
	return template.FuncMap{
		"list":          func(all ...any) []any { return all },
		"inc":           func(i int) int { return i + 1 },
		"min":           func(a, b int) int { return min(a, b) },
		"plural":        display.Plural,
		"provisionName": func() string { return provisionName },
		// count is a count of the paper, scaled, and least at least.
		"count": func(n int, least ...int) int { return scaled(n, s.scale, slices.Max(append(least, 1))) },
		// groups is how many groups are filled in for so many group versions.
		"groups": func(versions int) int {
			return max(2, scaled(versions, min(1, 4*s.scale), 1)-builtInGroupVersions)
		},
		// original keeps a published figure out of plots if this run has not the original's counts.
		"original": func(published any) any {
			if s.scale != 1 {
				return 0
			}
			return published
		},
		"during": func(d string) (time.Duration, error) {
			if s.duration > 0 {
				return s.duration, nil
			}
			return time.ParseDuration(d)
		},
	}
}

// scaled is a count times the scale, least at least.
func scaled(count int, scale float64, least int) int {
	return max(least, int(math.Round(float64(count)*scale)))
}

// data has a file for each paper: a template of YAML, because counts and titles follow from the
// scale.
//
//go:embed data/*.yaml
var data embed.FS

// names are the papers in the order of tables.
func names() []string { return []string{"a", "b", "c", "d", "e"} }

// read reads the paper of a name at a size.
func read(name string, s size) (*Paper, error) {
	file, err := data.ReadFile("data/" + name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("there is no paper %q", name)
	}
	parsed, err := template.New(name).Option("missingkey=error").Funcs(s.functions()).Parse(string(file))
	if err != nil {
		return nil, fmt.Errorf("read paper: %w", err)
	}
	var text strings.Builder
	if err := parsed.Execute(&text, struct{ Scale float64 }{s.scale}); err != nil {
		return nil, fmt.Errorf("read paper: %w", err)
	}
	p := &Paper{}
	if err := yaml.UnmarshalStrict([]byte(text.String()), p); err != nil {
		return nil, fmt.Errorf("read paper %s: %w", name, err)
	}
	return p, nil
}

// all are the papers at the original's scale.
func all() (papers []*Paper) {
	for _, name := range names() {
		p, err := read(name, size{scale: 1})
		if err != nil {
			panic(err) // the files are part of the program
		}
		papers = append(papers, p)
	}
	return papers
}
