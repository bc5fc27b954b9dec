# Linux with everything: docker build -t tilewright . && docker run --rm -it -v "$PWD":/work tilewright
FROM python:3.12-slim
RUN apt-get update && apt-get install -y --no-install-recommends binutils g++ make && rm -rf /var/lib/apt/lists/*
COPY . /opt/tilewright
RUN pip install --no-cache-dir --constraint /opt/tilewright/constraints.txt '/opt/tilewright[gpu,opencl,blocks,cluster,report]'
WORKDIR /work
CMD ["tilewright", "ladder"]
