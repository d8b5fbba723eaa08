package papers

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/display"
)

// printout is what a step has printed, by server and in the order of its report.
type printout []printedServer

// printedServer is the JSON of one server.
type printedServer struct {
	name   string
	values object
}

// object is a JSON object.
type object = map[string]any

// member is a member of an object. It is the zero value if the member is missing or of another
// type.
func member[T any](o object, name string) T {
	value, _ := o[name].(T)
	return value
}

// objects are those of a list in an object.
func objects(o object, list string) (all []object) {
	for _, one := range member[[]any](o, list) {
		if o, ok := one.(object); ok {
			all = append(all, o)
		}
	}
	return all
}

// pathCluster is how "bench provision" names the server that exists.
const pathCluster = "cluster"

// decode reads what a step has printed. Benches without a list of servers have results of
// several paths, which stand for servers.
func decode(step string, text []byte) (printout, error) {
	var whole object
	if err := json.Unmarshal(text, &whole); err != nil {
		return nil, fmt.Errorf("decode report of step %s: %w", step, err)
	}
	var p printout
	for _, server := range objects(whole, "servers") {
		p = append(p, printedServer{member[string](server, "name"), server})
	}
	for _, result := range objects(whole, "results") {
		path := member[string](result, "path")
		if path == pathCluster {
			path = testbed.ReadPathExisting
		}
		at := slices.IndexFunc(p, func(s printedServer) bool { return s.name == path })
		if at < 0 {
			at = len(p)
			p = append(p, printedServer{path, object{"results": []any{}}})
		}
		values := p[at].values
		values["results"] = append(member[[]any](values, "results"), result)
		values["version"] = cmp.Or(member[string](result, "version"), member[string](result, "server"), member[string](values, "version"))
	}
	return p, nil
}

// at returns what is at a path, such as "results[workload=pods-json].millis.p50": of a list, the
// last element that has these members and no error. A last member that is missing is 0, as it is
// left out when it is.
func at(value any, path string) (any, bool) {
	for path != "" {
		var name, rest string
		name, path, _ = strings.Cut(path, ".")
		name, rest, isList := strings.Cut(name, "[")
		o, ok := value.(object)
		if !ok {
			return nil, false
		}
		if value = o[name]; !isList {
			continue
		}
		if value, ok = last(objects(o, name), strings.TrimSuffix(rest, "]")); !ok {
			return nil, false
		}
	}
	if value == nil {
		value = 0.0
	}
	return value, true
}

// last finds the last object that did not fail and has members, such as "servers=1,rate=0". One
// that is left out is 0 or false.
func last(all []object, members string) (object, bool) {
	for _, o := range slices.Backward(all) {
		has := o["error"] == nil
		for pair := range strings.SplitSeq(members, ",") {
			name, want, _ := strings.Cut(pair, "=")
			switch value := o[name]; {
			case name == "":
			case value == nil:
				has = has && (want == "0" || want == "false")
			default:
				has = has && fmt.Sprint(value) == want
			}
		}
		if has {
			return o, true
		}
	}
	return nil, false
}

// number is the number at a path of a server.
func (s *printedServer) number(path string) (float64, bool) {
	value, ok := at(s.values, path)
	n, isNumber := value.(float64)
	return n, ok && isNumber
}

// figure is a row's at a server where all that it is made of was measured.
func (s *printedServer) figure(r *rowPlan) (total float64, measured bool) {
	for _, path := range r.Of {
		n, ok := s.number(path)
		if !ok {
			return 0, false
		}
		total += n
	}
	if r.Less != "" {
		n, ok := s.number(r.Less)
		if !ok {
			return 0, false
		}
		total = max(0, total-n)
	}
	return total * cmp.Or(r.Times, 1) / cmp.Or(r.Over, 1), true
}

// section makes a section of what the steps have printed.
func (p *sectionPlan) section(steps map[string]printout) Section {
	s := Section{Title: p.Title, Note: p.Note}
	for i := range p.Rows {
		r := &p.Rows[i]
		row := Row{Name: r.Name, Unit: r.Unit, Published: r.Published, PublishedValue: r.Value, Values: map[string]float64{}}
		for _, server := range steps[cmp.Or(r.Step, p.Step)] {
			if v, ok := server.figure(r); ok {
				row.Values[server.name] = v
			}
		}
		s.add(row)
	}
	for _, plan := range p.Charts {
		if c := plan.chart(steps[p.Step]); len(c.Lines) > 0 {
			s.Charts = append(s.Charts, c)
		}
	}
	for _, server := range steps[p.Step] {
		if bytes, ok := server.number(p.Answer); ok {
			s.Note = "An answer here has " + unitBytes.format(bytes) + " as clients receive it."
		}
	}
	return s
}

// chart has a line for each server with more than one sample.
func (p *chartPlan) chart(d printout) Chart {
	c := Chart{Title: p.Title, Unit: p.Unit}
	for _, server := range d {
		list, _ := at(server.values, p.Of)
		samples := objects(object{"": list}, "")
		if len(samples) < 2 {
			continue
		}
		line := Series{Server: server.name}
		for _, sample := range samples {
			line.Points = append(line.Points, [2]float64{member[float64](sample, "s"), member[float64](sample, "rss")})
		}
		c.Lines = append(c.Lines, line)
	}
	return c
}

// versions are those of the servers.
func (d printout) versions() map[string]string {
	all := map[string]string{}
	for _, s := range d {
		if version := member[string](s.values, "version"); version != "" {
			all[s.name] = version
		}
	}
	return all
}

// remarks say where a server refused requests or ended answers, which clients then repeated, and
// what failed.
func (d printout) remarks() (lines []string) {
	var failures []string
	for _, s := range d {
		for _, list := range []string{"results", "informers"} {
			for _, o := range objects(s.values, list) {
				what := measured(o)
				add := func(count, text string) {
					if n := int(member[float64](o, count)); n > 0 {
						lines = append(lines, fmt.Sprintf("%s, %s: "+text, serverName(s.name), what, display.Plural(n, "time")))
					}
				}
				add("refused", "the first request was refused %s for now (429). Its time begins with the last try.")
				add("resumed", "the server ended a watch %s, which then went on behind its last event.")
				add("restarts", "informers had to begin again %s.")
				if err := member[string](o, "error"); err != "" {
					first, _, _ := strings.Cut(err, "\n") // what follows is the end of a process's log
					failures = append(failures, fmt.Sprintf("Failed: %s, %s: %s", serverName(s.name), what, display.Clean(first)))
				}
			}
		}
	}
	return append(lines, failures...)
}

// measured says what a result is of.
func measured(result object) string {
	if workload := member[string](result, "workload"); workload != "" {
		return workload
	}
	if n := int(member[float64](result, "servers")); n > 0 {
		return display.Plural(n, "server")
	}
	return "pods from creation to running"
}
