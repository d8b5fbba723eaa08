package slo

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/account/serverreport"
)

// TestRelistStorm lets twelve clients of one program list at about the same time,
// each from its own address. The lists of another program with three clients are no
// storm.
func TestRelistStorm(t *testing.T) {
	const clients = 12
	d := newTestServer(t)
	d.write("listed", 50, 1000)
	list := func(agent string, address byte) (read int) {
		client := through(d.http2(1<<20), (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, address)}}).DialContext)
		resp := d.ask(client, agent, "/api/v1/configmaps?resourceVersion=0")
		body, err := io.ReadAll(resp.Body)
		check(t, err)
		return len(body)
	}
	bytes := 0
	for i := range clients {
		bytes += list("fleet-agent", byte(10+i))
	}
	for i := range 3 {
		list("operator", byte(100+i))
	}
	var storm serverreport.Storm
	d.until(func(r *serverReports) error {
		if n := len(r.lists.Storms); n != 1 || r.metrics["millrace_list_storms"] != 1 {
			return fmt.Errorf("%v storms in the metrics, want 1: %+v", r.metrics["millrace_list_storms"], r.lists.Storms)
		}
		storm = r.lists.Storms[0]
		if storm.UserAgent != "fleet-agent" || storm.Resource != "configmaps" || storm.Clients != clients || storm.Fleet != clients ||
			storm.Requests != clients || storm.Advice == "" || !storm.Ended.IsZero() {
			return fmt.Errorf("wrong storm: %+v", storm)
		}
		return nil
	})
	// The storm's bytes do not include lists from before it was detected.
	if most := uint64(bytes); storm.Bytes == 0 || storm.Bytes > most {
		t.Errorf("the storm has %d bytes, want some of %d", storm.Bytes, most)
	}
	for _, args := range [][]string{{}, {"lists"}} {
		if output := d.runTop(args...); !strings.Contains(output, "12 of 12 fleet-agent list configmaps") {
			t.Errorf("top %v does not tell of the storm:\n%s", args, output)
		}
	}
	var lists serverreport.ListsReport
	check(t, json.Unmarshal([]byte(d.runTop("lists", "-o", "json")), &lists))
	if len(lists.Storms) != 1 || lists.Storms[0].UserAgent != "fleet-agent" {
		t.Errorf("top lists -o json: %+v", lists.Storms)
	}
	r, err := d.read()
	check(t, err)
	for _, c := range r.lists.Clients {
		if c.UserAgent == "fleet-agent" && (c.Requests != clients || c.Bytes != uint64(bytes)) {
			t.Errorf("want %d requests and %d bytes: %+v", clients, bytes, c)
		}
	}
}
