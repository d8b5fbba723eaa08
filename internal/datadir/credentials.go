package datadir

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Report says what EnsureCredentials did.
type Report struct {
	// Written lists the files made anew or changed, in order; it is empty when
	// all were sound.
	Written []Change
	// Warnings name what works today and needs somebody soon.
	Warnings []string
}

// Change is one file written and why.
type Change struct {
	File   string
	Reason string
}

// plan collects what is to be written. Nothing is written before every file
// has been judged, so an error leaves the directory as it was.
type plan struct {
	root     string
	now      time.Time
	writes   []write
	warnings []string
}

type write struct {
	file   string
	data   []byte
	mode   fs.FileMode
	reason string
}

const missing = "missing"

// EnsureCredentials makes the credentials that are missing, issues again those
// about to expire or lacking a name in hosts, points the kubeconfigs at the
// server's address, and keeps all others. A certificate issued again keeps its
// private key, so that a crash between two files leaves a pair that fits.
//
// Errors are ErrBadState or ErrInvalidHosts, and nothing has been written then;
// any other error comes from writing, and the call can be repeated.
func (d *Dir) EnsureCredentials(hosts Hosts) (Report, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.lock == nil {
		return Report{}, fmt.Errorf("ensure credentials: %w", ErrClosed)
	}
	end, err := hosts.resolve()
	if err != nil {
		return Report{}, err
	}
	p := &plan{root: d.paths.Root, now: d.now()}
	if err := p.judgeAll(d.paths, end); err != nil {
		return Report{}, err
	}
	report := Report{Warnings: p.warnings}
	if len(p.writes) == 0 {
		return report, nil
	}
	if err := os.MkdirAll(d.paths.PKI, dirMode); err != nil {
		return report, fmt.Errorf("create key directory: %w", err)
	}
	for _, w := range p.writes {
		if err := writeFile(w.file, w.data, w.mode); err != nil {
			return report, fmt.Errorf("write %s: %w", filepath.Base(w.file), err)
		}
		report.Written = append(report.Written, Change{File: w.file, Reason: w.reason})
	}
	return report, nil
}

func (p *plan) judgeAll(paths Paths, end endpoint) error {
	ca, err := p.authority(paths.CACert, paths.CAKey, "millrace-ca")
	if err != nil {
		return err
	}
	proxyCA, err := p.authority(paths.FrontProxyCACert, paths.FrontProxyCAKey, "millrace-front-proxy-ca")
	if err != nil {
		return err
	}
	serving := leafSpec{
		subject:  pkix.Name{CommonName: "kube-apiserver"},
		usage:    x509.ExtKeyUsageServerAuth,
		dnsNames: end.dnsNames,
		ips:      end.ips,
	}
	if err := p.pair(ca, paths.ServingCert, paths.ServingKey, serving); err != nil {
		return err
	}
	proxyClient := clientSpec(pkix.Name{CommonName: "front-proxy-client"})
	if err := p.pair(proxyCA, paths.FrontProxyClientCert, paths.FrontProxyClientKey, proxyClient); err != nil {
		return err
	}
	if err := p.serviceAccountKeys(paths.ServiceAccountKey, paths.ServiceAccountPub); err != nil {
		return err
	}
	kubeconfigs := []struct {
		file string
		name pkix.Name
	}{
		{paths.AdminKubeconfig, pkix.Name{CommonName: "millrace-admin", Organization: []string{"system:masters"}}},
		{paths.ControllerManagerKubeconfig, pkix.Name{CommonName: "system:kube-controller-manager"}},
		{paths.SchedulerKubeconfig, pkix.Name{CommonName: "system:kube-scheduler"}},
	}
	for _, k := range kubeconfigs {
		if err := p.kubeconfig(ca, k.file, end.server, clientSpec(k.name)); err != nil {
			return err
		}
	}
	return nil
}

func (p *plan) write(file string, data []byte, mode fs.FileMode, reason string) {
	p.writes = append(p.writes, write{file: file, data: data, mode: mode, reason: reason})
}

func (p *plan) warn(format string, args ...any) {
	p.warnings = append(p.warnings, fmt.Sprintf(format, args...))
}

// all is what to remove so that the next start makes a new authority and
// everything that depends on it.
func (p *plan) all() string {
	return filepath.Join(p.root, "pki") + " and " + filepath.Join(p.root, "*.kubeconfig")
}
