# SPDX-License-Identifier: MIT
"""A debuginfod server for one file: FILE is of the kind KIND and has the build id in the file "id".

Notes what it is asked for in "asked", waits while there is a file "down", and leaves the number of
its port in "port"."""
import http.server
import os
import sys
import time

kind, file = sys.argv[1:]


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with open("asked", "a") as f:
            print(self.path, file=f)
        while os.path.exists("down"):
            time.sleep(0.1)
        found = self.path == "/buildid/%s/%s" % (open("id").read(), kind)
        data = open(file, "rb").read() if found else b""
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
open("port.new", "w").write(str(server.server_port))
os.rename("port.new", "port")
server.serve_forever()
