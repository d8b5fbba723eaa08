package model

import (
	"fmt"

	"github.com/millrace/millrace/internal/tool/price"
)

// compareLists returns comparisons of the CPU of the LISTs in servers.json.
func compareLists(dir string, constants Constants) ([]Comparison, error) {
	var r serversReport
	if err := readReport(dir, serversFile, &r); err != nil {
		return nil, err
	}
	reader := constantReader{constants: constants}
	kinds := map[string]*prices{kubeAPIServer: reader.pricesOf(kubernetes), millrace: reader.pricesOf(millrace)}
	atReplicas := reader.pricesOf(replica)
	var all []Comparison
	for i := range r.Results {
		x := &r.Results[i]
		p, name := kinds[x.Path], fmt.Sprintf("%d × %s", x.Servers, x.Path)
		if p == nil || x.CPUMillis == 0 {
			continue
		}
		if x.Replicas > 0 {
			p, name = atReplicas, fmt.Sprintf("%d × replica of %s", x.Replicas, x.Path)
		}
		list := readLoad{count: 1, kind: readList, encoding: price.JSON, bytes: x.Bytes}
		all = append(all, Comparison{
			Row: name, Figure: "LIST of all " + x.Workload + ", CPU", Unit: "s",
			Model: price.ThreeDigits(list.cpuSeconds(p)), Measured: price.ThreeDigits(x.CPUMillis / 1e3), Check: true,
		})
	}
	return all, reader.err
}
