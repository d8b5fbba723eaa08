package testbed

// Total is the sum of the readings of several processes.
type Total struct {
	Usage
	BytesWritten int64 // as Meter.BytesWritten
}

// ReadAll takes a reading of each meter, and returns the sum.
func ReadAll(meters ...*Meter) (t Total, err error) {
	for _, m := range meters {
		use, err := m.Read()
		if err != nil {
			return t, err
		}
		written, err := m.BytesWritten()
		if err != nil {
			return t, err
		}
		t.CPU += use.CPU
		t.RSS += use.RSS
		t.Peak += use.Peak
		t.BytesWritten += written
	}
	return t, nil
}

// ReadServers does what ReadAll does, for the meters of servers.
func ReadServers(servers []*Server) (Total, error) {
	meters := make([]*Meter, len(servers))
	for i, s := range servers {
		meters[i] = s.Meter()
	}
	return ReadAll(meters...)
}
